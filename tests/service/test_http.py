"""The HTTP surface: health that tells the truth, metrics that need no database, closed to others (O1 to O3)."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import sql
from tests.database import Server
from tests.service.server import eventually, served

from brooq import Claim, Config, Job, Queue, State
from brooq.engine.metrics import Metrics
from brooq.postgres import PostgresStore
from brooq.postgres.pool import make_pool
from brooq.service.health import Health
from brooq.testing import MemoryStore

FAST = Config(poll_interval=0.05, lease=3, reaper_period=0.5, census_period=0.1, shutdown_grace=1)
TOKEN = "tok-123-and-more"


async def do_nothing(claim: Claim) -> None:
    """Succeed."""


@pytest.fixture
async def queue(dsn: str) -> AsyncIterator[Queue]:
    """A queue on a real database, not started."""
    pool = make_pool(dsn, min_size=0)
    made = Queue(PostgresStore(pool), FAST)
    made.register_kind("mail", do_nothing)
    await pool.open(wait=False)
    yield made
    await made.close()
    await pool.close()


def test_what_nobody_looks_at_is_not_imported() -> None:
    """The API and the dashboard are 2 MB of an idle worker."""
    source = (
        "import sys, brooq.service.process;"
        "print([name for name in sys.modules if name.startswith(('brooq.service.api', 'brooq.service.dashboard'))])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_several_who_ask_first_find_one_of_every_page(queue: Queue) -> None:
    async with served(queue, token=TOKEN) as surface:
        paths = ["/login", "/api/v1/openapi.json", "/nowhere"] * 4
        headers = {"authorization": f"Bearer {TOKEN}"}
        answers = await asyncio.gather(*(surface.client.get(path, headers=headers) for path in paths))
        assert [answer.status_code for answer in answers] == [200, 200, 404] * 4
        measured = (await surface.client.get("/metrics", headers=headers)).text
    for route, code in (("/login", 200), ("/api/v1/openapi.json", 200), ("other", 404)):
        assert f'brooq_http_requests_total{{code="{code}",method="GET",route="{route}"}} 4.0' in measured


async def test_readyz_is_well_while_the_queue_works(queue: Queue) -> None:
    async with queue, served(queue) as surface:
        answer = await surface.client.get("/readyz")
        assert answer.status_code == 200
        report = answer.json()
        assert report["well"] is True
        assert (report["database"], report["schema"], report["slots"]) == ("ok", "ok", "ok")
        assert {"poll", "reaper", "lease keeper", "census"} <= set(report["loops"])
        assert set(report["loops"].values()) == {"ok"}


async def test_readyz_before_the_start_says_that_nothing_runs(queue: Queue) -> None:
    async with served() as surface:
        answer = await surface.client.get("/readyz")
        assert answer.status_code == 503
        assert "queue: not running" in answer.json()["wrong"]
    async with served(queue) as surface:
        answer = await surface.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["database"] == "ok"
        assert answer.json()["running"] is False


async def test_readyz_of_a_schema_that_is_gone(queue: Queue, dsn: str) -> None:
    async with queue, served(queue) as surface:
        assert (await surface.client.get("/readyz")).status_code == 200
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("drop table brooq_migration")
        answer = await surface.client.get("/readyz")
        assert answer.status_code == 503
        assert (answer.json()["database"], answer.json()["schema"]) == ("ok", "wrong")
        assert "schema: wrong" in answer.json()["wrong"]


@pytest.mark.fault(27)
async def test_readyz_of_a_server_that_only_reads(queue: Queue, dsn: str) -> None:
    """Fault 27: it answers, its schema is right, and no worker can work there."""
    async with queue:
        with psycopg.connect(dsn, autocommit=True) as connection:
            name = sql.Identifier(connection.info.dbname)
            change = sql.SQL("alter database {} set default_transaction_read_only = on")
            connection.execute(change.format(name))
        async with served(queue) as surface:
            answer = await surface.client.get("/readyz")
            assert answer.status_code == 503
            assert answer.json()["database"] == "read-only"
            assert answer.json()["schema"] == "ok"


async def test_readyz_and_metrics_without_a_database(queue: Queue, dsn: str, postgres: Server) -> None:
    async with queue, served(queue) as surface:
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        postgres.drop(str(name))
        answer = await surface.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["database"] == "no answer"
        assert str(name) not in answer.text
        started = time.perf_counter()
        samples = await surface.metrics()
        assert time.perf_counter() - started < 1.0
        assert samples['brooq_claimed_total{topic="mail"}'] == 0


async def test_readyz_answers_in_time_when_the_database_hangs(queue: Queue) -> None:
    hanging = asyncio.Event()

    class Hanging:
        """A database that takes the question and does not answer."""

        asked = 0

        async def open(self) -> None:
            self.asked += 1
            await hanging.wait()

        async def close(self) -> None:
            pass

    probe = Hanging()
    async with served(queue, probe=probe, patience=0.3) as surface:
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*(surface.client.get("/readyz") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.json()["database"] for answer in answers} == {"no answer"}
        assert probe.asked == 1  # a probe every second must not pile up questions to a database that hangs
        hanging.set()
        assert (await surface.client.get("/readyz")).json()["database"] == "ok"


async def test_whoever_asks_at_the_end_opens_nothing(queue: Queue) -> None:
    """The surface still answers when health has been closed."""

    class Counting:
        """A database, asked how often."""

        asked = 0

        async def open(self) -> None:
            self.asked += 1

        async def close(self) -> None:
            pass

    probe = Counting()
    health = Health()
    health.watch(queue, probe)
    assert (await health.report()).database == "ok"
    await health.close()
    assert (await health.report()).database == "unknown"
    assert probe.asked == 1


async def test_healthz_asks_nobody_and_does_not_fail_for_want_of_a_database(
    queue: Queue, dsn: str, postgres: Server
) -> None:
    """Whoever restarts a worker since its database is away makes two troubles of one."""
    async with served() as surface:
        answer = await surface.client.get("/healthz")
        assert (answer.status_code, answer.json()["slots"]) == (200, "starting")
    asked = []

    class Asked:
        async def open(self) -> None:
            asked.append(True)

        async def close(self) -> None:
            pass

    async with served(queue, probe=Asked()) as surface:
        assert (await surface.client.get("/healthz")).status_code == 200  # it waits for its start
        async with queue:
            postgres.drop(str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]))
            answer = await surface.client.get("/healthz")
            assert (answer.status_code, answer.json()["alive"], answer.json()["database"]) == (200, True, "not asked")
            assert answer.json()["loops"]["lease keeper"] == "ok"
            assert (await surface.client.get("/readyz")).status_code == 200
            assert len(asked) == 1
        answer = await surface.client.get("/healthz")
        assert (answer.status_code, answer.json()["running"]) == (503, False)  # what had begun runs no more


async def test_a_worker_whose_slots_are_all_hung_is_alive_and_not_ready() -> None:
    stubborn = asyncio.Event()

    async def handler(claim: Claim) -> None:
        while not stubborn.is_set():
            try:
                await stubborn.wait()
            except asyncio.CancelledError:
                continue

    queue = Queue(MemoryStore(), Config(workers=1, poll_interval=0.05, attempt_timeout=0.05, watchdog_grace=0.05))
    queue.register_kind("mail", handler)
    async with queue, served(queue) as surface:
        await queue.enqueue(Job("mail"))
        await eventually(lambda: queue.health().slots_hung)
        assert (await surface.client.get("/healthz")).status_code == 200
        answer = await surface.client.get("/readyz")
        assert (answer.status_code, answer.json()["slots"]) == (503, "all hung")
        stubborn.set()
        await eventually(lambda: not queue.health().slots_hung)
        assert (await surface.client.get("/readyz")).status_code == 200


@pytest.mark.fault(50)
@pytest.mark.parametrize("verb", ["exchange", "reap", "prune"])
async def test_a_loop_that_cannot_run_makes_healthz_fail_and_one_error_does_not(verb: str) -> None:
    class Sick(MemoryStore):
        """Raises what no store should, for as long as it is told."""

        failures = 0

    failed = asyncio.Event()
    original = getattr(MemoryStore, verb)

    async def sick(self: Sick, *arguments: object) -> object:
        if Sick.failures > 0:
            Sick.failures -= 1
            failed.set()
            raise TypeError("not an error of the database")
        return await original(self, *arguments)

    setattr(Sick, verb, sick)
    queue = Queue(Sick(), Config(poll_interval=0.05, reaper_period=0.05, retention_period=0.05, lease=3))
    queue.register_kind("mail", do_nothing)
    Sick.failures = 1
    async with queue, served(queue) as surface:
        await asyncio.wait_for(failed.wait(), 20)
        await eventually(lambda: queue.health().well)
        assert (await surface.client.get("/healthz")).status_code == 200
        Sick.failures = 10**9
        await eventually(lambda: not queue.health().well)
        answer = await surface.client.get("/healthz")
        assert answer.status_code == 503
        assert any("not running" in each for each in answer.json()["wrong"])
        Sick.failures = 0


@pytest.mark.fault(54)
async def test_an_odd_bearer_header_is_refused_never_an_error() -> None:
    queue = Queue(MemoryStore(), FAST)
    odd = [
        b"", b"Bearer", b"Bearer ", b"bearer", b"bearer " + TOKEN.encode(), b"Bearer caf\xe9", b"Bearer  " + TOKEN.encode(),
        b"Basic " + TOKEN.encode(), TOKEN.encode(), b"Bearer " + TOKEN[:-1].encode(), b"Bearer " + TOKEN.encode() + b"x",
        b"Bearer " + b"x" * 2**15, b"Bearer \xff\xfe", b"Bearer " + TOKEN.encode() + b"," + TOKEN.encode(),
    ]  # fmt: skip
    async with served(queue, token=TOKEN) as surface:
        request = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        heads = [request + b"Authorization: " + value + b"\r\n\r\n" for value in odd]
        bearer = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
        for head in [request + b"\r\n", *heads, request + bearer + bearer + b"\r\n"]:
            answer = await surface.raw(head)
            assert answer.split(b"\r\n", 1)[0] == b"HTTP/1.1 401 Unauthorized", head[:200]
            assert b"Traceback" not in answer
        assert (await surface.raw(request + bearer + b"\r\n")).startswith(b"HTTP/1.1 200")
        assert (await surface.client.get("/readyz")).status_code == 503  # open, and nothing runs
        assert (
            'brooq_http_requests_total{code="401",method="GET",route="/metrics"} '
            in (await surface.client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})).text
        )


async def test_a_token_that_is_no_ascii_works_as_bytes() -> None:
    async with served(Queue(MemoryStore(), FAST), token="ключ") as surface:
        right = {b"authorization": "Bearer ключ".encode()}
        assert (await surface.client.get("/metrics", headers=right)).status_code == 200
        assert (await surface.client.get("/metrics", headers={b"authorization": b"Bearer \xd0"})).status_code == 401


@pytest.mark.security("S4")
@pytest.mark.parametrize(
    ("host", "code"),
    [
        (b"127.0.0.1:8090", 200), (b"localhost", 200), (b"LOCALHOST:1", 200), (b"[::1]:8090", 200), (b"127.9.9.9", 200),
        (b"evil.example", 421), (b"localhost.evil.example", 421), (b"127.0.0.1.evil.example", 421), (b"10.0.0.1", 421),
        (b"0.0.0.0", 421), (b"localhost@evil.example", 421), (b"[::ffff:127.0.0.1]", 421), (b"caf\xe9", 421), (b"", 421),
    ],
)  # fmt: skip
async def test_only_requests_to_loopback_names_are_answered(host: bytes, code: int) -> None:
    async with served(Queue(MemoryStore(), FAST)) as surface:
        answer = await surface.raw(b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
        assert int(answer.split()[1]) == code


@pytest.mark.security("S4")
@pytest.mark.parametrize(
    "head",
    [
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        b"GET /metrics HTTP/1.1\r\n",
        b"GET http://evil.example/metrics HTTP/1.1\r\nHost: evil.example\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n",
    ],
)
async def test_no_other_name_reaches_anything_not_even_health(head: bytes) -> None:
    """Before the token and before the routes: a page that rebinds its name reads nothing."""
    async with served(Queue(MemoryStore(), FAST), token=TOKEN) as surface:
        answer = await surface.raw(head + b"Connection: close\r\n\r\n")
        assert int(answer.split()[1]) in {400, 421}
        assert b"brooq_" not in answer
        assert b"well" not in answer


@pytest.mark.security("S5")
@pytest.mark.security("S7")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
async def test_nothing_can_be_changed_and_no_other_page_may_read(method: str) -> None:
    """There is no action to forge, nothing to forge it with, and no leave to read the answer."""
    async with served(Queue(MemoryStore(), FAST)) as surface:
        for path in ("/metrics", "/healthz", "/readyz", "/"):
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
            answer = await surface.raw(head.encode() + b"Cookie: a=b\r\nConnection: close\r\n\r\n")
            assert int(answer.split()[1]) in {400, 404, 405}
            names = {line.partition(b":")[0].strip().lower() for line in answer.partition(b"\r\n\r\n")[0].splitlines()}
            assert not [name for name in names if name.startswith(b"access-control") or name == b"set-cookie"]


@pytest.mark.security("S6")
async def test_no_answer_can_be_taken_for_a_page() -> None:
    """No HTML anywhere: what is hostile in a topic or a path is text, in a type that no browser runs."""
    async with served(Queue(MemoryStore(), FAST)) as surface:
        for path in ("/healthz", "/metrics", "/<script>alert(1)</script>", "/%3Cimg%20src=x%20onerror=alert(1)%3E"):
            answer = await surface.client.get(path)
            assert answer.headers["content-type"].partition(";")[0] in {"application/json", "text/plain"}
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "alert" not in answer.text


@pytest.mark.parametrize("path", ["/metrics/", "/healthz/x", "/docs", "/%2e%2e/metrics", "/metrics%00", "/static"])
async def test_there_is_nothing_else(path: str) -> None:
    async with served(Queue(MemoryStore(), FAST)) as surface:
        assert (await surface.client.get(path, follow_redirects=False)).status_code in {404, 307}
        for token in (None, "x"):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            assert (await surface.client.post("/orders", headers=headers)).status_code == 404
        assert (await surface.client.post("/metrics")).status_code == 405
        assert (await surface.client.head("/metrics")).status_code == 200


async def test_metrics_of_the_surface_do_not_grow_with_what_strangers_ask() -> None:
    async with served(Queue(MemoryStore(), FAST)) as surface:
        for number in range(50):
            await surface.client.get(f"/{number}")
            await surface.raw(b"M%d / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % number)
        samples = await surface.metrics()
        series = [name for name in samples if name.startswith("brooq_http_requests_total")]
        assert samples['brooq_http_requests_total{code="404",method="GET",route="other"}'] == 50
        assert len(series) < 6


async def test_every_documented_metric_is_there_once_a_job_was_run(queue: Queue) -> None:
    async with queue, served(queue) as surface:
        await queue.enqueue(Job("mail"))
        await eventually(lambda: queue.metrics.settled["mail", "done"] == 1)
        await queue.take_census()
        samples = await surface.metrics()
    for name in (
        'brooq_claimed_total{topic="mail"}', 'brooq_settle_total{outcome="done",topic="mail"}',
        'brooq_attempt_duration_seconds_count{topic="mail"}', 'brooq_pickup_delay_seconds_count{topic="mail"}',
        'brooq_jobs{state="done",topic="mail"}',
    ):  # fmt: skip
        assert samples[name] == 1, name
    assert samples['brooq_attempt_duration_seconds_sum{topic="mail"}'] > 0
    assert samples['brooq_attempt_duration_seconds_bucket{le="+Inf",topic="mail"}'] == 1
    for name in (
        'brooq_worker_busy{topic="mail"}', 'brooq_ready_oldest_age_seconds{topic="mail"}',
        'brooq_lease_lost_total{topic="mail"}', 'brooq_hung_workers_total{topic="mail"}',
        'brooq_requeued_total{topic="mail"}', 'brooq_retention_deleted_total{topic="mail"}',
        'brooq_settle_total{outcome="dead",topic="mail"}', 'brooq_jobs{state="dead",topic="mail"}',
    ):  # fmt: skip
        assert samples[name] == 0, name
    assert samples["brooq_census_age_seconds"] < 20


def test_the_engine_counts_nothing_that_is_not_exposed() -> None:
    counters = {"claimed", "settled", "lease_lost", "hung", "requeued", "deleted", "behind"}
    exposed = {*counters, "attempt_seconds", "pickup_seconds"}
    assert set(vars(Metrics())) - exposed == {"topics", "census", "census_at"}


@pytest.mark.fault(48)
async def test_nothing_is_reported_before_it_is_known(queue: Queue) -> None:
    async with served(queue) as surface:
        samples = await surface.metrics()
        assert not [name for name in samples if name.startswith(("brooq_jobs", "brooq_ready", "brooq_census"))]
        await queue.take_census()
        samples = await surface.metrics()
        assert samples['brooq_jobs{state="pending",topic="mail"}'] == 0


@pytest.mark.fault(48)
@pytest.mark.security("S16")
async def test_gauges_fall_to_zero_and_thousands_of_foreign_topics_stay_one_series(queue: Queue, dsn: str) -> None:
    async with served(queue) as surface:
        await queue.enqueue_many([Job("mail") for _ in range(100)])
        await queue.take_census()
        samples = await surface.metrics()
        assert samples['brooq_jobs{state="pending",topic="mail"}'] == 100
        assert samples['brooq_ready_oldest_age_seconds{topic="mail"}'] > 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("delete from job")
            await queue.take_census()
            samples = await surface.metrics()
            assert samples['brooq_jobs{state="pending",topic="mail"}'] == 0
            assert samples['brooq_ready_oldest_age_seconds{topic="mail"}'] == 0
            before = len((await surface.client.get("/metrics")).content)
            connection.execute(
                "insert into job (topic) select 'foreign-' || md5(n::text) from generate_series(1, 5000) as n"
            )
            await queue.take_census()
            answer = await surface.client.get("/metrics")
            assert len(answer.content) < before + 2000
            assert "foreign-" not in answer.text
            assert (await surface.metrics())['brooq_jobs{state="pending",topic="_other"}'] > 0
            # A read that fails is no reading of 0.
            await queue.enqueue_many([Job("mail") for _ in range(3)])
            await queue.take_census()
            connection.execute("alter table job rename to gone")
            with pytest.raises(Exception, match="job"):
                await queue.take_census()
            samples = await surface.metrics()
            assert samples['brooq_jobs{state="pending",topic="mail"}'] == 3


@pytest.mark.security("S16")
async def test_no_label_holds_what_a_producer_chooses_without_bound(queue: Queue) -> None:
    """Ids, keys, payloads and errors are no labels; topics are those of the kinds, and a bounded number of others."""
    async with queue, served(queue) as surface:
        await queue.enqueue_many([Job("mail", n, f"key-{n}") for n in range(20)])
        await eventually(lambda: queue.metrics.settled["mail", "done"] == 20)
        text = (await surface.client.get("/metrics")).text
    labels = set(re.findall(r'[{,](\w+)="', text))
    assert labels <= {"topic", "state", "outcome", "le", "route", "method", "code", "version", "python"}
    assert "key-" not in text


async def test_names_are_those_that_prometheus_recommends(queue: Queue) -> None:
    promtool = shutil.which("promtool")
    await queue.take_census()
    async with served(queue) as surface:
        await surface.client.get("/healthz")
        text = (await surface.client.get("/metrics")).text
    families = [line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len({name for name, _ in families})
    for name, kind in families:
        assert name.startswith("brooq_")
        assert name.endswith("_total") == (kind == "counter")
        assert kind != "histogram" or name.endswith("_seconds")
    assert text.count("# HELP") == text.count("# TYPE")
    if promtool:
        done = subprocess.run(  # noqa: ASYNC221  nothing else waits
            [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


async def test_every_answer_forbids_sniffing_and_storing() -> None:
    async with served(Queue(MemoryStore(), FAST)) as surface:
        for path in ("/healthz", "/readyz", "/metrics", "/nothing"):
            headers = (await surface.client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


def test_states_and_outcomes_are_spelled_as_in_the_table() -> None:
    assert {str(state) for state in State} >= {"done", "failed", "dead", "canceled"}
