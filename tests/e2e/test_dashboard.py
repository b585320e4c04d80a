"""The dashboard in a real browser: Chromium, driven as people use it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
import pytest_asyncio
from examples.webhooks.deliveries import SAMPLE
from playwright.async_api import Browser, Page, expect
from tests.browser import PATIENCE, browser, log_in, visit
from tests.database import Server
from tests.e2e.demo import command, environment
from tests.service.dashboard.hostile import HOSTILE
from tests.service.dashboard.stand import READING, WRITING, Stand, stand

from brooq import Claim, Config, Job, MustGiveUp, Queue, Schedule, State
from brooq.postgres import PostgresStore, open_pool

# One browser and one queue for all of them: starting either takes longer than most of the tests.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("browser")]
expect.set_options(timeout=PATIENCE)

PAGES = ("/", "/?range=24h", "/topics", "/jobs", "/jobs?state=dead", "/dead", "/schedules", "/workers")
WRITE = """
insert into job (id, topic, payload, state, attempts, idempotency_key, locked_by, locked_until, last_error, failures, tags,
                 metadata)
values (%(id)s, 'hostile', %(json)s::text::jsonb, %(state)s, 1, %(key)s, %(text)s,
        now() + interval '1 hour', %(text)s, %(failures)s, array[%(tag)s],
        jsonb_build_object(%(text)s::text, %(json)s::text::jsonb))
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The browser; skips where there is none."""
    async with browser() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(postgres: Server, chromium: Browser) -> AsyncIterator[tuple[Stand, Queue, str]]:
    """A queue that works, its dashboard, its database."""
    with postgres.database(migrated=True) as dsn:
        async with open_pool(dsn, min_size=0) as pool:
            queue = Queue(
                PostgresStore(pool), Config(poll_interval=0.05, lease=30, census_period=0.5, shutdown_grace=1)
            )

            async def mail(claim: Claim) -> None:
                if claim.payload == "fail":
                    raise MustGiveUp(f"550 no mailbox of job {claim.id}")
                if claim.payload == "slow":
                    await asyncio.sleep(60)

            queue.register_kind("mail", mail)
            async with queue, stand(queue, payloads=True) as shown:
                await queue.schedule(Schedule("yearly", "@yearly", "mail", "x"), by="Boris")
                await queue.enqueue_many([Job("mail", n) for n in range(5)] + [Job("orphan", "x")])
                yield shown, queue, dsn


async def ended(queue: Queue, job: UUID) -> State:
    """The state in which a job has ended."""
    async with asyncio.timeout(20):
        while True:
            record = await queue.find(job)
            if record is not None and record.state.terminal:
                return record.state
            await asyncio.sleep(0.02)


def hostile_jobs(dsn: str) -> dict[UUID, str]:
    """A job for each text, which stands in every field that takes one; some are dead, some are being worked on."""
    made = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = psycopg.ClientCursor(connection)
        for number, text in enumerate(HOSTILE):
            id = uuid4()
            failures = [{"attempt": 1, "at": "2026-11-30T12:00:00+00:00", "worker": text, "error": text}]
            values = {"id": id, "json": json.dumps({text: [text]}), "state": ("dead", "processing")[number % 2],
                      "key": f"{number} {text}", "text": text, "failures": json.dumps(failures), "tag": text}  # fmt: skip
            cursor.execute(WRITE.encode(), values)
            cursor.execute(
                "insert into brooq_operation (actor, action, job, topic, found, done, reason)"
                " values (%(text)s, 'cancel', %(id)s, 'hostile', 'dead', false, %(text)s)",
                values,
            )
            made[id] = text
        cursor.execute(
            "insert into brooq_topic (topic, paused_at, paused_by, pause_reason) values ('hostile', now(), %(t)s, %(t)s)",
            {"t": "".join(HOSTILE[:20])[:500]},
        )
        cursor.execute(
            "insert into brooq_worker (name, host, pid, version, slots, topics, busy, running) values"
            " (%(t)s, %(t)s, 1, %(t)s, 2, array[%(t)s], jsonb_build_object(%(t)s, 1), %(running)s)",
            {"t": HOSTILE[0] + HOSTILE[19], "running": json.dumps(
                [{"id": str(uuid4()), "topic": HOSTILE[1], "attempt": 1, "seconds": 1.0, "hung": True}])},
        )  # fmt: skip
        # Names and topics are words by a constraint of the table; the others are whatever somebody writes there.
        connection.execute(
            "insert into brooq_schedule (name, topic, cron, timezone, paused_at, paused_by)"
            " select 'hostile-' || n, 'hostile', left(text, 512), left(text, 128), case when n %% 2 = 0 then now() end,"
            " case when n %% 2 = 0 then text end from unnest(%s::text[]) with ordinality as each (text, n)",
            [list(HOSTILE)],
        )
    return made


async def whole(page: Page) -> None:
    """Nothing of a hostile text has come to life. The page would not tell: what it could have done is looked for."""
    assert await page.evaluate("window.pwned_at ?? null") is None
    found = await page.evaluate(
        """() => [...document.querySelectorAll('*')].filter((each) =>
            ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'STYLE', 'TEMPLATE', 'MATH', 'IMG'].includes(each.nodeName.toUpperCase())
            || (each.nodeName === 'SCRIPT' && !each.src.startsWith(location.origin + '/static/'))
            || [...each.attributes].some((one) => /^on/i.test(one.name) || one.name === 'style'
                                         || /^\\s*javascript:/i.test(one.value) && one.name !== 'value'
                                            && !one.name.startsWith('aria-') && one.name !== 'title'
                                            && !one.name.startsWith('data-'))
        ).map((each) => each.outerHTML.slice(0, 200))"""
    )
    assert found == []


@pytest.mark.security("S26")
async def test_hostile_texts_are_shown_as_text(chromium: Browser, place: tuple[Stand, Queue, str]) -> None:
    """Thirty of them in every field: keys, payloads, errors, failures, workers, tags, metadata, operators, reasons."""
    shown, _, dsn = place
    jobs = hostile_jobs(dsn)
    async with visit(chromium, shown.base) as page:
        await page.add_init_script("window.pwned = () => { window.pwned_at = location.href; };")
        await log_in(page, WRITING, name=HOSTILE[0] + HOSTILE[20])
        for path in (
            "/topics",
            "/dead",
            "/workers",
            "/schedules",
            "/jobs?state=processing",
            "/jobs?topic=hostile",
            "/?topic=hostile",
        ):
            await page.goto(path)
            await whole(page)
        for id, text in jobs.items():
            await page.goto(f"/jobs/{id}")
            await whole(page)
            shown_text = await page.evaluate("document.body.textContent")
            # As often as there are fields: payload (escaped as JSON has it), key, worker, error, failure, tag, operator.
            assert shown_text.count(text) >= 7, (text, shown_text.count(text))
        for text in HOSTILE:
            for name in ("q", "topic", "error", "worker", "state", "after", "said", "range"):
                if name in ("q", "worker"):
                    await page.goto(f"/jobs?{name}={_quoted(text)}")
                    await whole(page)
        await page.goto(
            "/jobs?" + "&".join(f"{name}={_quoted(HOSTILE[21])}" for name in ("topic", "error", "said", "n"))
        )
        await whole(page)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from job where topic = 'hostile'")
        connection.execute("delete from brooq_topic")
        connection.execute("delete from brooq_schedule where topic = 'hostile'")
        connection.execute("delete from brooq_worker where pid = 1")


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


async def test_pages_are_live(chromium: Browser, place: tuple[Stand, Queue, str]) -> None:
    shown, queue, _ = place
    async with visit(chromium, shown.base) as page:
        await log_in(page, WRITING)
        await page.goto("/jobs?topic=mail")
        await expect(page.locator("#live")).to_have_text("Live")
        job, _ = await queue.enqueue(Job("mail", "slow", idempotency_key="live-1"))
        row = page.locator("tr[data-row]", has_text="live-1")
        await expect(row).to_contain_text("processing")
        await row.locator("input[name=id]").check()
        await expect(page.locator("#marked")).to_have_text("Marked jobs: 1")
        other, _ = await queue.enqueue(Job("mail", "x", idempotency_key="live-2"))
        await expect(page.locator("tr[data-row]", has_text="live-2")).to_contain_text("done")
        # What is marked stays marked, whatever comes in.
        await expect(row.locator("input[name=id]")).to_be_checked()
        await page.keyboard.press("p")
        await expect(page.locator("#live")).to_have_text("Paused")
        await page.click("button[value=cancel]")
        await expect(page.locator(".said")).to_contain_text("Canceled: 1.")
        assert await ended(queue, job) is State.CANCELED
        assert await ended(queue, other) is State.DONE


async def test_everything_can_be_read_and_done_without_scripts(
    chromium: Browser, place: tuple[Stand, Queue, str]
) -> None:
    shown, queue, _ = place
    job, _ = await queue.enqueue(Job("mail", "fail", idempotency_key="quiet"))
    assert await ended(queue, job) is State.DEAD
    async with visit(chromium, shown.base, scripts=False) as page:
        await log_in(page, WRITING)
        for path in PAGES:
            answer = await page.goto(path)
            assert answer is not None
            assert answer.ok
        await expect(page.locator("#live")).to_be_hidden()
        await page.goto("/topics")
        row = page.locator("tr[data-row]", has_text="orphan")
        await row.locator("summary").click()
        await row.locator("input[name=reason]").fill("not now")
        await row.locator("form button").click()
        await expect(page.locator(".said")).to_have_text("The topic is paused.")
        await expect(page.locator("#topics")).to_contain_text("not now")
        await page.goto("/schedules")
        row = page.locator("tr[data-row]", has_text="yearly")
        await row.locator("summary", has_text="Run").click()
        await row.locator("form button", has_text="Run now").click()
        await expect(page.locator(".said")).to_contain_text("beside the ticks")
        await page.goto("/jobs")
        await page.fill("#search", "quiet")
        await page.click("form.filters button")
        await page.click("[data-open]")
        await expect(page.locator(".why")).to_contain_text("550 no mailbox")
        await page.click("button[value=retry]")
        await expect(page.locator("main")).to_contain_text(str(job))


async def test_who_may_only_read_is_offered_nothing_else(chromium: Browser, place: tuple[Stand, Queue, str]) -> None:
    shown, _, _ = place
    async with visit(chromium, shown.base) as page:
        await log_in(page, READING)
        for path in PAGES:
            await page.goto(path)
            assert await page.locator("main form[method=post] button:visible, input[name=id], summary").count() == 0, (
                path
            )
        await expect(page.locator(".foot")).to_contain_text("may only look")


async def test_the_keyboard_goes_everywhere(chromium: Browser, place: tuple[Stand, Queue, str]) -> None:
    shown, queue, _ = place
    await queue.enqueue_many([Job("later", n, idempotency_key=f"key-{n}") for n in range(3)])
    async with visit(chromium, shown.base) as page:
        await log_in(page, WRITING)
        await page.keyboard.press("g")
        await page.keyboard.press("j")
        await page.wait_for_url("**/jobs")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await expect(page.locator("tr.at")).to_have_count(1)
        await page.keyboard.press("x")
        await expect(page.locator("#marked")).to_have_text("Marked jobs: 1")
        await page.keyboard.press("/")
        await expect(page.locator("#search")).to_be_focused()
        await page.keyboard.type("key-1")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**q=key-1**")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await expect(page.locator(".facts")).to_contain_text("key-1")
        await page.keyboard.press("?")
        await expect(page.locator("#help")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("#help")).to_be_hidden()
        await page.goto("/")
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()


@pytest.mark.parametrize("language", ["en-US", "ru-RU"])
async def test_narrow_screens_never_scroll_sideways(
    chromium: Browser, place: tuple[Stand, Queue, str], language: str
) -> None:
    shown, queue, _ = place
    long = "x" * 300
    job, _ = await queue.enqueue(Job("mail", {long: long}, idempotency_key=f"{language}{long}", tags=(long[:50],)))
    await ended(queue, job)
    async with visit(chromium, shown.base, width=390, height=844, language=language) as page:
        await page.goto("/login")
        await log_in(page, WRITING, name="A" * 80)
        for path in (*PAGES, f"/jobs/{job}", "/login"):
            await page.goto(path)
            width = await page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
            assert width <= 390, (path, width)


async def test_language_and_theme_are_kept(chromium: Browser, place: tuple[Stand, Queue, str]) -> None:
    shown, _, _ = place
    async with visit(chromium, shown.base, light=False) as page:
        await log_in(page, WRITING)
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = await page.evaluate(ground)
        await page.click(".tools a[hreflang=ru]")
        await expect(page.locator("h1")).to_have_text("Обзор")
        for expected in ("dark", "light"):
            await page.click(".tools a[href*=theme]")
            await page.wait_for_selector(f"html[data-theme={expected}]")
        assert await page.evaluate(ground) != dark
        await page.goto("/dead")
        await expect(page.locator("h1")).to_have_text("Мёртвые")
        await expect(page.locator("html")).to_have_attribute("data-theme", "light")


@pytest.mark.timeout(180)
async def test_a_newcomer_finds_a_dead_job_reads_why_retries_it_and_sees_it_done(
    chromium: Browser, tmp_path: Path
) -> None:
    """The demo, with the address that it prints and nothing else."""
    sample = tmp_path / "some.jsonl"
    sample.write_text("".join(SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)[:60]), encoding="utf-8")
    arguments = command(tmp_path / "demo", "--stay", "--input", sample)
    demo = await asyncio.create_subprocess_exec(
        *arguments, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        address = await _printed(demo)
        async with visit(chromium, address.partition("/login")[0]) as page:
            await page.goto(address)
            await page.wait_for_selector(".tabs")
            # The token is in no address that the browser keeps.
            assert "#" not in page.url
            await page.click(".tile.bad")
            group = page.locator(".groups li").first
            await expect(group).to_contain_text("550")
            await group.locator("[data-open]").click()
            await expect(page.locator(".why")).to_contain_text("550")
            await expect(page.locator(".life")).to_contain_text("Dead after attempt")
            await page.click("button[value=retry]")
            await expect(page.locator(".said")).to_have_text("Enqueued anew: 1.")
            await expect(page.locator("#state")).to_have_text(re.compile("done"))
            await expect(page.locator(".notice")).to_contain_text("This job repeats")
    finally:
        demo.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            await demo.wait()
    assert demo.returncode == 0


async def _printed(demo: asyncio.subprocess.Process) -> str:
    """The address of the dashboard that stays."""
    assert demo.stdout is not None
    said = b""
    async with asyncio.timeout(120):
        while line := await demo.stdout.readline():
            said += line
            if line.startswith(b"dashboard: "):
                return line.decode().split()[1]
    raise AssertionError(said.decode())
