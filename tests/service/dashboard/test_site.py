"""The dashboard as HTTP: who gets in, what a form must show, what is sent, what is never sent."""

from __future__ import annotations

import asyncio
import gzip
import re
from uuid import UUID

import psycopg
import pytest
from tests.postgres.observer import Observer
from tests.service.dashboard.stand import READING, WRITING, stand
from tests.service.server import eventually

from brooq import Job, Limits, Queue, Schedule, State
from brooq.service.dashboard.page import assets, version
from brooq.service.secret import Secret
from brooq.service.token import Tokens
from brooq.testing import MemoryStore

PAGES = [
    "/",
    "/?range=7d",
    "/topics",
    "/jobs",
    "/jobs?state=dead",
    "/jobs?state=pending&topic=mail",
    "/dead",
    "/schedules",
    "/workers",
]
SECRET = "the-canary-of-the-payload"
NOBODY = UUID(int=7 << 76 | 1 << 63 | 5)
"""No job has this id."""


def seal(page: str) -> str:
    """What a form of the page carries."""
    found = re.search('name="seal" value="([^"]+)"', page)
    assert found is not None
    return found.group(1)


async def ended(queue: Queue, job: UUID) -> State:
    """The state in which a job has ended."""
    async with asyncio.timeout(20):
        while True:
            record = await queue.find(job)
            if record is not None and record.state.terminal:
                return record.state
            await asyncio.sleep(0.02)


@pytest.mark.security("S26")
@pytest.mark.parametrize("path", [*PAGES, f"/jobs/{NOBODY}"])
async def test_without_a_session_every_page_asks_for_the_token(queue: Queue, path: str) -> None:
    async with stand(queue) as shown, shown.client(None) as client:
        answer = await client.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")
        assert (await client.get("/events")).status_code == 401


async def test_pages_answer_in_both_languages(queue: Queue) -> None:
    await queue.enqueue_many([Job("mail", "fail"), Job("mail"), Job("other")])
    async with queue, stand(queue) as shown, shown.client() as client:
        await eventually(lambda: queue.metrics.settled["mail", "dead"])
        for path in PAGES:
            english = await client.get(path)
            assert (english.status_code, english.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
            russian = await client.get(path, headers={"accept-language": "ru-RU,en;q=0.5"})
            assert '<html lang="en"' in english.text
            assert '<html lang="ru"' in russian.text
            assert re.search("[а-яё]{5}", russian.text)
        client.cookies.set("brooq_lang", "ru")
        assert '<html lang="ru"' in (await client.get("/")).text


async def test_no_token_means_closed_and_says_what_to_do(queue: Queue) -> None:
    async with stand(queue, tokens=Tokens()) as shown, shown.client(None) as client:
        assert (await client.get("/")).status_code == 303
        page = await client.get("/login")
        assert "no token is set" in page.text
        assert "HTTP_TOKEN=" in page.text
        assert "<form" not in page.text.partition("<main")[2]
        assert (await client.post("/login", data={"token": ""})).status_code == 403


async def test_a_wrong_token_is_refused_and_never_shown_again(queue: Queue) -> None:
    async with stand(queue) as shown, shown.client(None) as client:
        answer = await client.post("/login", data={"token": "wrong-but-typed-in", "next": "/jobs"})
        assert answer.status_code == 403
        assert "wrong-but-typed-in" not in answer.text
        assert "set-cookie" not in answer.headers


@pytest.mark.security("S26")
async def test_the_cookie_is_kept_from_scripts_and_other_sites(queue: Queue) -> None:
    async with stand(queue) as shown, shown.client(None) as client:
        answer = await client.post("/login", data={"token": WRITING})
        cookie = answer.headers["set-cookie"]
        assert re.search("; HttpOnly", cookie)
        assert re.search("; SameSite=strict", cookie, re.IGNORECASE)
        assert "Secure" not in cookie
        assert WRITING not in cookie
        behind = await client.post("/login", data={"token": WRITING}, headers={"origin": "https://jobs.example.org"})
        assert "; Secure" in behind.headers["set-cookie"]


@pytest.mark.security("S26")
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "", "origin": "https://evil.example"},
        {"sec-fetch-site": "", "origin": "null"},
    ],
)
async def test_forms_of_other_sites_do_nothing(queue: Queue, headers: dict[str, str]) -> None:
    id, _ = await queue.enqueue(Job("mail"))
    async with stand(queue) as shown, shown.client() as client:
        form = {"seal": seal((await client.get("/jobs")).text), "action": "cancel", "id": str(id)}
        assert (await client.post("/jobs/act", data=form, headers=headers)).status_code == 403
        assert (await client.post("/login", data={"token": WRITING}, headers=headers)).status_code == 403
        record = await queue.find(id)
        assert record is not None
        assert record.state is State.PENDING
        assert (await client.post("/jobs/act", data=form)).status_code == 303


@pytest.mark.security("S26")
@pytest.mark.parametrize("broken", ["", "x.y", None])
async def test_a_form_without_the_seal_of_its_session_does_nothing(queue: Queue, broken: str | None) -> None:
    id, _ = await queue.enqueue(Job("mail"))
    async with stand(queue) as shown, shown.client() as client, shown.client() as other:
        foreign = seal((await other.get("/jobs")).text) if broken is None else broken
        for path in ("/jobs/act", "/topics/act", "/schedules/act", "/dead/act", "/logout"):
            form = {"seal": foreign, "action": "cancel", "id": str(id), "topic": "mail"}
            assert (await client.post(path, data=form)).status_code == 403, path
        assert (await client.get("/")).status_code == 200


@pytest.mark.security("S26")
async def test_a_token_that_may_only_read_sees_everything_and_changes_nothing(queue: Queue, dsn: str) -> None:
    id, _ = await queue.enqueue(Job("mail"))
    async with stand(queue) as shown, shown.client(READING) as client:
        for path in (*PAGES, f"/jobs/{id}"):
            page = await client.get(path)
            assert page.status_code == 200
            assert not re.search(
                'action="/(jobs|topics|schedules|dead)/act"', page.text.replace('id="marked-form"', ""), re.ASCII
            ) or ("<button" not in page.text.partition('id="marked-form"')[2].partition("</form>")[0])
        form = {"seal": seal((await client.get("/")).text), "id": str(id), "topic": "mail", "error": ""}
        for path, action in (
            ("/jobs/act", "cancel"),
            ("/jobs/act", "retry"),
            ("/topics/act", "pause"),
            ("/schedules/act", "run"),
            ("/dead/act", ""),
        ):
            assert (await client.post(path, data={**form, "action": action})).status_code == 403
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select count(*) from brooq_operation").fetchone() == (0,)


async def test_what_is_done_is_written_down_with_the_name(queue: Queue, dsn: str) -> None:
    first, second = [answer.id for answer in await queue.enqueue_many([Job("mail"), Job("mail")])]
    async with stand(queue) as shown, shown.client() as client:
        page = (await client.get("/jobs")).text
        form = {"seal": seal(page), "action": "cancel", "id": [str(first), str(second)], "reason": "by mistake",
                "next": "/jobs?topic=mail"}  # fmt: skip
        answer = await client.post("/jobs/act", data=form)
        assert answer.headers["location"] == "/jobs?topic=mail&said=canceled&n=2&m=0"
        assert "Canceled: 2." in (await client.get(answer.headers["location"])).text
        again = await client.post("/jobs/act", data=form)
        assert "said=canceled&n=0&m=2" in again.headers["location"]
        pause = {
            "seal": seal(page),
            "action": "pause",
            "topic": "mail",
            "reason": "the server is down",
            "next": "/topics",
        }
        assert "said=paused" in (await client.post("/topics/act", data=pause)).headers["location"]
        topics = (await client.get("/topics")).text
        assert "the server is down" in topics
        assert "Anna (dashboard)" in topics
        assert (await client.post("/topics/act", data={**pause, "action": "resume"})).status_code == 303
        assert "the server is down" not in (await client.get("/topics")).text
    with psycopg.connect(dsn) as connection:
        trail = connection.execute("select actor, action, done, reason from brooq_operation order by id").fetchall()
    assert trail[0] == ("Anna (dashboard)", "cancel", True, "by mistake")
    assert [(action, done) for _, action, done, _ in trail] == [
        ("cancel", True), ("cancel", True), ("cancel", False), ("cancel", False), ("pause", True), ("resume", True)
    ]  # fmt: skip


async def test_what_is_set_for_a_topic_stands_beside_it(queue: Queue) -> None:
    await queue.limit("mail", Limits(max_running=3, rate=60, rate_period=30), by="Boris")
    async with stand(queue) as shown, shown.client() as client:
        page = (await client.get("/topics")).text
        assert "<code>max_running=3</code>, <code>rate=60</code>, <code>rate_period=30.0</code> · Boris" in page


async def test_schedules_are_shown_with_what_comes_and_what_is_set(queue: Queue, dsn: str) -> None:
    async with stand(queue) as shown, shown.client() as client:
        assert "brooq cron add" in (await client.get("/schedules")).text
        payload = {"secret": SECRET}
        await queue.schedule(Schedule("nightly", "30 2 * * *", "mail", payload, "Europe/Berlin", "all", 7), by="Boris")
        await queue.schedule(Schedule("hourly", "@hourly", "other", missed="skip"), by="Boris")
        page = (await client.get("/schedules")).text
        rows = page.split("<tr data-row>")[1:]
        assert [row.split("<b>")[1].split("</b>")[0] for row in rows] == ["hourly", "nightly"]
        assert "<code>30 2 * * *</code> Europe/Berlin" in rows[1]
        assert "a job for each missed tick, at most 7" in rows[1]
        assert "missed ticks are left out" in rows[0]
        assert "added by hand" in rows[0]
        # The next three ticks, as people say it, with the exact moment for whoever points at it.
        exact = re.findall(r'title="(20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC)">in \d', rows[0])
        assert len(exact) == 3
        assert all(each.endswith(":00:00 UTC") for each in exact)
        assert SECRET not in page
        one = (await client.get("/schedules?topic=mail")).text
        assert "nightly" in one
        assert "hourly" not in one.partition("<main")[2]
        await queue.enqueue(Job("mail"))
        assert 'href="/schedules?topic=mail">schedules: 1</a>' in (await client.get("/topics")).text
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("update brooq_schedule set declared = true, next_at = now() - interval '2 minutes'")
            connection.execute("update brooq_schedule set cron = '<b>no' where name = 'hourly'")
            connection.execute("update brooq_schedule set timezone = '../<i>' where name = 'nightly'")
        broken = (await client.get("/schedules")).text
        assert broken.count("unreadable here") == 2
        assert broken.count("declared in code") == 2
        assert broken.count("late</span>") == 2
        assert "&lt;b&gt;no" in broken
        assert "<b>no" not in broken


async def test_schedules_are_paused_resumed_and_run_in_somebodys_name(queue: Queue, dsn: str) -> None:
    await queue.schedule(Schedule("cleanup", "0 0 1 1 *", "mail", {"days": 30}, priority=3), by="Boris")
    async with stand(queue) as shown, shown.client() as client:
        form = {"seal": seal((await client.get("/schedules")).text), "schedule": "cleanup", "reason": "disk",
                "next": "/schedules?topic=mail"}  # fmt: skip

        async def act(action: str, **changed: str) -> str:
            answer = await client.post("/schedules/act", data={**form, "action": action, **changed})
            return str(answer.headers.get("location", answer.status_code))

        assert await act("pause") == "/schedules?topic=mail&said=held&n=0&m=0"
        assert "said=unscheduled" in await act("pause")
        page = (await client.get("/schedules?said=held")).text
        assert "The schedule is paused." in page
        assert "paused by Anna (dashboard)" in page
        led = await act("run")
        id = UUID(led.removeprefix("/jobs/").partition("?")[0])
        assert "beside the ticks of its schedule" in (told := (await client.get(led)).text)
        assert "Scheduled by Anna (dashboard)" in told
        assert "said=continued" in await act("resume")
        assert "said=unscheduled" in await act("resume")
        for action in ("pause", "resume", "run"):
            assert "said=unscheduled" in await act(action, schedule="none")
        assert await act("else") == "400"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("update brooq_schedule set cron = 'no', paused_at = now(), paused_by = 'Boris'")
        assert "said=unreadable" in await act("resume")
    # The same as a tick enqueues, ready at once.
    record = await queue.find(id)
    assert record is not None
    assert (record.topic, record.payload, record.priority, record.idempotency_key) == ("mail", {"days": 30}, 3, "")
    assert record.metadata == {"schedule": "cleanup"}
    with psycopg.connect(dsn) as connection:
        trail = connection.execute(
            "select actor, action, found, reason, done from brooq_operation order by id"
        ).fetchall()
    assert trail[1:] == [
        ("Anna (dashboard)", "schedule", f"{done} cleanup", "disk", True) for done in ("paused", "ran", "resumed")
    ]


async def test_a_schedule_without_a_payload_tells_the_job_its_name(queue: Queue) -> None:
    await queue.schedule(Schedule("hello", "@daily", "mail"), by="Boris")
    async with stand(queue) as shown, shown.client() as client:
        form = {"seal": seal((await client.get("/schedules")).text), "schedule": "hello", "action": "run"}
        led = (await client.post("/schedules/act", data=form)).headers["location"]
    by_hand = await queue.run_schedule("hello")
    assert by_hand is not None
    records = [await queue.find(id) for id in (by_hand.id, UUID(led.removeprefix("/jobs/").partition("?")[0]))]
    fields = ("topic", "payload", "metadata", "priority", "max_attempts", "concurrency_key", "idempotency_key")
    told = [[getattr(record, name) for name in fields] for record in records]
    assert told[0] == told[1]


async def test_many_schedules_are_shown_a_page_at_a_time(queue: Queue, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into brooq_schedule (name, topic, cron, timezone)"
            " select 'job-' || n, 'mail', '@daily', 'UTC' from generate_series(100, 219) as n"
        )
    async with stand(queue) as shown, shown.client() as client:
        path, seen = "/schedules", []
        while path:
            page = (await client.get(path)).text
            seen += re.findall(r"<b>(job-\d+)</b>", page)
            found = re.search('rel="next" href="([^"]+)"', page)
            path = found.group(1).replace("&amp;", "&") if found else ""
            assert len(seen) in {50, 100, 120}
        assert seen == [f"job-{n}" for n in range(100, 220)]


async def test_the_dead_are_retried_by_what_they_died_of(queue: Queue) -> None:
    jobs = [answer.id for answer in await queue.enqueue_many([Job("mail", "fail") for _ in range(3)])]
    async with stand(queue) as shown, shown.client() as client:
        async with queue:
            for job in jobs:
                assert await ended(queue, job) is State.DEAD
        page = (await client.get("/dead")).text
        # Their errors differ in an id alone: one group.
        assert page.count("group-count") == 1
        assert "MustGiveUp: 550 no mailbox of job" in page
        error = re.search('name="error" value="([^"]*)"', page)
        assert error is not None
        form = {"seal": seal(page), "topic": "mail", "error": error.group(1), "next": "/dead"}
        answer = await client.post("/dead/act", data=form)
        assert "said=retried&n=3&m=0" in answer.headers["location"]
        assert "said=nothing" in (await client.post("/dead/act", data=form)).headers["location"]
        assert "retried" in (await client.get("/dead")).text


async def test_a_retry_leads_to_the_new_job_and_both_name_each_other(queue: Queue) -> None:
    id, _ = await queue.enqueue(Job("mail", "fail"))
    async with stand(queue) as shown, shown.client() as client:
        async with queue:
            assert await ended(queue, id) is State.DEAD
        page = (await client.get(f"/jobs/{id}")).text
        form = {"seal": seal(page), "action": "retry", "id": str(id), "follow": "1", "next": f"/jobs/{id}"}
        answer = await client.post("/jobs/act", data=form)
        new = re.match("/jobs/([0-9a-f-]{36})", answer.headers["location"])
        assert new is not None
        assert new.group(1) != str(id)
        assert str(id) in (await client.get(answer.headers["location"])).text
        assert new.group(1) in (await client.get(f"/jobs/{id}")).text
        # While that one waits there is no second one: one is led to it.
        assert new.group(1) in (await client.post("/jobs/act", data=form)).headers["location"]


@pytest.mark.security("S26")
async def test_payloads_are_hidden_unless_they_are_allowed(queue: Queue) -> None:
    id, _ = await queue.enqueue(Job("mail", {"secret": SECRET}))
    for payloads in (False, True):
        async with stand(queue, payloads=payloads) as shown, shown.client() as client:
            pages = [(await client.get(path)).text for path in (*PAGES, f"/jobs/{id}")]
            assert any(SECRET in page for page in pages) is payloads
            assert any("HTTP_PAYLOADS=on" in page for page in pages) is not payloads
            async with shown.client(READING) as reader:
                assert SECRET not in (await reader.get(f"/jobs/{id}")).text


@pytest.mark.security("S26")
async def test_every_answer_has_a_policy_without_inline_anything(queue: Queue) -> None:
    await queue.enqueue(Job("mail"))
    async with stand(queue) as shown, shown.client() as client:
        for path in (*PAGES, "/login", f"/static/{version()}/brooq.js", "/jobs/none", f"/jobs/{NOBODY}"):
            answer = await client.get(path, follow_redirects=True)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            if answer.headers["content-type"].startswith("text/html"):
                assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?! type=\"module\" src=)", answer.text), path
                assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", answer.text), path


@pytest.mark.security("S26")
@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", ""])
async def test_nobody_is_led_elsewhere(queue: Queue, to: str) -> None:
    async with stand(queue) as shown, shown.client(None) as client:
        answer = await client.post("/login", data={"token": WRITING, "next": to})
        assert answer.headers["location"] == "/"
        assert (await client.get("/set", params={"lang": "ru", "next": to})).headers["location"] == "/"


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        (b"{}", "application/json", 415),
        (b"a=1&" * 5000, "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 300_000, "application/x-www-form-urlencoded", 413),
        (b"\xff\xfe", "application/x-www-form-urlencoded", 400),
        (b"", "application/x-www-form-urlencoded", 403),
    ],
)
async def test_forms_that_are_none_are_refused(queue: Queue, content: bytes, kind: str, code: int) -> None:
    async with stand(queue) as shown, shown.client() as client:
        answer = await client.post("/jobs/act", content=content, headers={"content-type": kind})
        assert answer.status_code == code


@pytest.mark.parametrize(
    "path",
    ["/jobs?state=nothing", "/jobs?after=nothing", "/jobs?state=dead&after=x_y", "/jobs?state=pending&after=2026-01-01_1",
     "/jobs/1", f"/jobs/{NOBODY}", "/jobs?state=processing&after=1"],
)  # fmt: skip
async def test_what_is_not_there_is_told_as_a_page(queue: Queue, path: str) -> None:
    async with stand(queue) as shown, shown.client() as client:
        answer = await client.get(path)
        assert answer.status_code == 404
        assert "This did not work" in answer.text


async def test_a_search_finds_by_id_and_by_key(queue: Queue) -> None:
    id, _ = await queue.enqueue(Job("mail", idempotency_key="order-42"))
    await queue.enqueue(Job("mail", idempotency_key="order-43"))
    async with stand(queue) as shown, shown.client() as client:
        assert (await client.get("/jobs", params={"q": f" {id} "})).headers["location"] == f"/jobs/{id}"
        page = (await client.get("/jobs", params={"q": "order-42"})).text
        assert str(id) in page
        assert page.count("data-row") == 1
        assert "No job fits" in (await client.get("/jobs", params={"q": "order-4"})).text


async def test_without_a_database_the_pages_say_so(queue: Queue, dsn: str) -> None:
    async with stand(queue) as shown, shown.client() as client:
        assert (await client.get("/")).status_code == 200
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("alter table job rename to elsewhere")
        answer = await client.get("/")
        assert answer.status_code == 503
        assert "brooq migrate up" in answer.text


async def test_without_a_store_in_postgresql_there_is_nothing_to_show() -> None:
    async with stand(Queue(MemoryStore())) as shown, shown.client() as client:
        answer = await client.get("/")
        assert answer.status_code == 503
        assert "not in PostgreSQL" in answer.text


async def test_the_first_load_is_small(queue: Queue) -> None:
    """Must hold: at most 100 kB compressed, everything that the first page brings together."""
    await queue.enqueue_many([Job(f"topic-{n:02}") for n in range(40)])
    async with queue, stand(queue) as shown, shown.client() as client:
        await eventually(lambda: queue.metrics.census and queue.metrics.census.depths)
        size = 0
        paths = ["/", *re.findall(r'(?:href|src)="(/static/[^"]+)"', (await client.get("/")).text)]
        assert len(paths) == 4
        for path in paths:
            async with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
                raw = b"".join([part async for part in answer.aiter_raw()])
                size += len(raw) + sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)
                assert answer.headers.get("content-encoding") == "gzip" or len(raw) < 600
        assert size <= 100_000, size
        assert size <= 30_000, "twice what it is now: look at what has grown"


async def test_assets_are_kept_for_ever_and_the_version_changes_with_them(queue: Queue) -> None:
    async with stand(queue) as shown, shown.client(None) as client:
        answer = await client.get(f"/static/{version()}/brooq.css")
        assert "immutable" in answer.headers["cache-control"]
        assert "immutable" not in (await client.get("/static/other/brooq.css")).headers.get("cache-control", "")
        for path in ("/static/x/..%2f..%2fpage.py", "/static/x/none.css", "/static/x/__init__.py"):
            assert (await client.get(path)).status_code == 404
        for name, asset in assets().items():
            assert gzip.decompress(asset.squeezed) == asset.content, name


async def test_a_change_is_told_to_open_pages(queue: Queue) -> None:
    async with (
        stand(queue) as shown,
        shown.client() as client,
        client.stream("GET", "/events") as stream,
        asyncio.timeout(20),
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = stream.aiter_lines()
        while await anext(told) != "event: change":  # the first look
            pass
        job, _ = await queue.enqueue(Job("mail"))
        while await anext(told) != "event: change":
            pass
        await queue.cancel(job)
        while await anext(told) != "event: change":
            pass


async def test_streams_are_counted_and_end_with_the_dashboard(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brooq.service.dashboard.pulse.MOST", 2)
    async with (
        stand(queue) as shown,
        shown.client() as client,
        client.stream("GET", "/events") as first,
        client.stream("GET", "/events") as second,
    ):
        lines = [first.aiter_lines(), second.aiter_lines()]
        for each in lines:
            await anext(each)
        refused = await client.get("/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
        await shown.dashboard.close()
        async with asyncio.timeout(5):
            for each in lines:
                async for _ in each:
                    pass


async def test_a_page_that_is_being_made_when_the_dashboard_closes_leaves_no_connection(
    queue: Queue, observer: Observer, dsn: str
) -> None:
    """Each of its statements comes after the close, where one would find the connection gone, and make another."""
    async with stand(queue) as shown, shown.client() as client:
        with psycopg.connect(dsn) as blocker:
            blocker.execute("lock table brooq_topic")
            page = asyncio.ensure_future(client.get("/"))
            waits = "select count(*) from pg_locks where not granted"
            await observer.until(lambda: observer.value(waits))
            closing = asyncio.ensure_future(shown.dashboard.close())
            await asyncio.sleep(0)
        await closing
        assert (await page).status_code == 503
    await queue.close()
    await observer.until(lambda: observer.sessions() == 0)


async def test_log_out_ends_it(queue: Queue) -> None:
    async with stand(queue) as shown, shown.client() as client:
        form = {"seal": seal((await client.get("/")).text)}
        assert (await client.post("/logout", data=form)).headers["location"] == "/login"
        assert (await client.get("/")).status_code == 303


async def test_tokens_that_are_changed_under_way_count_at_once(queue: Queue) -> None:
    async with stand(queue) as shown, shown.client() as client:
        shown.tokens.replace([Secret("n" * 43)])
        assert (await client.get("/")).status_code == 303
        assert (await client.post("/login", data={"token": "n" * 43})).status_code == 303
        assert (await client.get("/")).status_code == 200
