"""The HTTP API on a real socket and a real database: what it does, and to whom it does nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.postgres.observer import Observer
from tests.service.server import Served, served

from brooq import Claim, Config, Job, Queue, State
from brooq.engine.outcome import Outcome
from brooq.postgres import PostgresStore, open_pool
from brooq.service.api.deed import DEEDS
from brooq.service.api.document import PREFIX
from brooq.service.api.site import MAX_BODY
from brooq.testing import MemoryStore

WRITER, READER = "w" * 32, "r" * 32
AS_WRITER = {"authorization": f"Bearer {WRITER}"}
AS_READER = {"authorization": f"Bearer {READER}"}
PROBLEM = "application/problem+json"
NOBODY = "00000000-0000-7000-8000-000000000000"


@asynccontextmanager
async def api(dsn: str, **options: Any) -> AsyncIterator[tuple[Served, Queue]]:
    """The API over a database, for whoever may write; nothing works off the jobs."""
    async with open_pool(dsn, min_size=0, max_size=5) as pool:
        queue = Queue(PostgresStore(pool), Config())
        async with served(queue, **{"token": WRITER, "reading": READER} | options) as surface:
            surface.client.headers.update(AS_WRITER)
            surface.client.base_url = surface.client.base_url.join(PREFIX)
            yield surface, queue
        await queue.store.close()


async def ended(queue: Queue, job: Job, state: State = State.DEAD, error: str | None = "boom 17") -> UUID:
    """A job that has come to its end."""
    await queue.enqueue(job)
    (taken,) = (await queue.store.exchange("w", [], [job.topic], 1, timedelta(seconds=30))).taken
    await queue.store.exchange("w", [Outcome(taken.id, taken.token, state, error)], [], 0, timedelta(seconds=30))
    return job.id


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem, which must be of that kind and whole."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    said: dict[str, Any] = answer.json()
    assert (said["type"], said["status"]) == (f"urn:brooq:problem:{kind}", status)
    assert said["title"]
    return said


async def test_a_job_is_enqueued_found_and_listed(dsn: str) -> None:
    async with api(dsn) as (surface, queue):
        payload = '{"big": 123456789012345678901234567890, "small": 1.5, "text": "é\\u20ac"}'
        body = (
            f'{{"topic": "mail", "payload": {payload}, "idempotency_key": "k 1", "priority": 2, "max_attempts": 3,'
            ' "tags": ["a"], "metadata": {"x": 1}, "available_at": "2030-01-01T00:00:00+02:00"}'
        )
        headers = {"content-type": "application/json"}
        answer = await surface.client.post("/jobs", content=body.encode(), headers=headers)
        assert (answer.status_code, answer.json()["created"]) == (201, True)
        id = answer.json()["id"]
        again = await surface.client.post("/jobs", content=body.encode(), headers=headers)
        assert (again.status_code, again.json()) == (200, {"id": id, "created": False})
        found = await surface.client.get(f"/jobs/{id}")
        # Digit by digit: no number of it was read.
        assert '"big":123456789012345678901234567890' in found.text.replace(" ", "")
        said = found.json()
        assert (said["topic"], said["state"], said["priority"], said["max_attempts"], said["tags"], said["metadata"]) == (
            "mail", "pending", 2, 3, ["a"], {"x": 1},
        )  # fmt: skip
        assert said["available_at"] == "2029-12-31T22:00:00Z"
        assert (said["operations"], said["retries"], said["result"]) == ([], [], None)
        (listed,) = (await surface.client.get("/jobs", params={"topic": "mail", "key": "k 1"})).json()["jobs"]
        assert listed["id"] == id
        assert "payload" not in listed
        record = await queue.find(id)
        assert record is not None
        assert record.payload["text"] == "é€"


async def test_jobs_are_enqueued_together_all_or_none(dsn: str, observer: Observer) -> None:
    async with api(dsn) as (surface, _):
        jobs = [{"topic": "a", "payload": n, "idempotency_key": f"k{n % 2}"} for n in range(3)]
        answer = await surface.client.post("/jobs/bulk", json={"jobs": jobs})
        assert answer.status_code == 200
        assert [each["created"] for each in answer.json()["jobs"]] == [True, True, False]
        assert answer.json()["jobs"][0]["id"] == answer.json()["jobs"][2]["id"]
        wrong = [{"topic": "a"}, {"topic": "a", "payload": "\x00"}]
        said = problem(await surface.client.post("/jobs/bulk", json={"jobs": wrong}), 422, "invalid")
        assert "job 1" in said["detail"] or "1" in said["detail"]
        problem(await surface.client.post("/jobs/bulk", json={"jobs": []}), 422, "invalid")
        problem(await surface.client.post("/jobs/bulk", json={"jobs": [{"topic": "a"}] * 1001}), 422, "invalid")
        assert observer.value("select count(*) from job") == 2


async def test_a_request_can_be_repeated_by_its_id(dsn: str, observer: Observer) -> None:
    async with api(dsn) as (surface, _):
        id = str(Job("a").id)
        for _ in range(2):
            answer = await surface.client.post("/jobs", json={"topic": "a", "id": id})
            assert answer.json() == {"id": id, "created": True}
        assert observer.value("select count(*) from job") == 1


async def test_a_job_is_canceled_once_and_who_did_it_is_written_down(dsn: str, observer: Observer) -> None:
    async with api(dsn) as (surface, queue):
        id, _ = await queue.enqueue(Job("a"))
        headers = {"x-brooq-actor": "ann\x1b[31m"}
        answer = await surface.client.post(f"/jobs/{id}/cancel", json={"reason": "not needed"}, headers=headers)
        assert answer.json() == {"id": str(id), "canceled": True, "state": "pending"}
        answer = await surface.client.post(f"/jobs/{id}/cancel")
        assert (answer.status_code, answer.json()) == (200, {"id": str(id), "canceled": False, "state": "canceled"})
        history = (await surface.client.get(f"/jobs/{id}")).json()["operations"]
        assert [(each["action"], each["done"], each["reason"]) for each in history] == [
            ("cancel", False, None), ("cancel", True, "not needed"),
        ]  # fmt: skip
        assert history[0]["actor"] == "api"
        assert history[1]["actor"].startswith("ann")
        assert "\x1b" not in history[1]["actor"]
        assert history[1]["actor"].endswith("(api)")
        done = await ended(queue, Job("b"), State.DONE, None)
        said = problem(await surface.client.post(f"/jobs/{done}/cancel"), 409, "too-late")
        assert "done" in said["detail"]
        problem(await surface.client.post(f"/jobs/{NOBODY}/cancel"), 404, "no-such-job")
        assert observer.value("select count(*) from brooq_operation") == 3


async def test_a_dead_job_is_retried_as_a_new_one_and_the_history_shows_both(dsn: str) -> None:
    async with api(dsn) as (surface, queue):
        old = await ended(queue, Job("a", {"n": 1}, "key"))
        answer = await surface.client.post(f"/jobs/{old}/retry", json={"reason": "fixed"})
        assert answer.status_code == 201
        made = answer.json()["id"]
        assert answer.json() == {"id": made, "retry_of": str(old)}
        said = problem(await surface.client.post(f"/jobs/{old}/retry"), 409, "under-way")
        assert said["job"] == made
        said = problem(await surface.client.post(f"/jobs/{made}/retry"), 409, "not-ended")
        assert "pending" in said["detail"]
        problem(await surface.client.post(f"/jobs/{NOBODY}/retry"), 404, "no-such-job")
        before, after = (
            (await surface.client.get(f"/jobs/{old}")).json(),
            (await surface.client.get(f"/jobs/{made}")).json(),
        )
        assert (before["state"], before["retries"], before["failures"][0]["error"]) == ("dead", [made], "boom 17")
        assert (after["state"], after["retry_of"], after["idempotency_key"]) == ("pending", str(old), "")
        (group,) = (await surface.client.get("/dead")).json()["groups"]
        assert (group["topic"], group["kind"], group["jobs"], group["latest"]) == ("a", "boom …", 1, str(old))


async def test_a_topic_is_paused_and_resumed_over_http(dsn: str) -> None:
    async with api(dsn) as (surface, queue):
        for changed in (True, False):
            answer = await surface.client.post("/topics/mail/pause", json={"reason": "maintenance"})
            assert answer.json() == {"topic": "mail", "changed": changed}
        await queue.enqueue(Job("mail"))
        assert (await queue.store.exchange("w", [], ["mail"], 1, timedelta(seconds=30))).taken == []
        (topic,) = (await surface.client.get("/stats")).json()["topics"]
        assert (topic["topic"], topic["paused_by"], topic["pause_reason"]) == ("mail", "api", "maintenance")
        assert (await surface.client.post("/topics/mail/resume")).json() == {"topic": "mail", "changed": True}
        assert len((await queue.store.exchange("w", [], ["mail"], 1, timedelta(seconds=30))).taken) == 1
        problem(await surface.client.post("/topics/No%20Topic/pause"), 422, "invalid")


async def test_stats_and_workers_show_what_is_going_on(dsn: str) -> None:
    go = asyncio.Event()

    async def handler(claim: Claim) -> None:
        await go.wait()

    async with api(dsn) as (surface, queue):
        queue.register_kind("a", handler)
        await queue.start()
        job, _ = await queue.enqueue(Job("a"))
        async with asyncio.timeout(20):
            while not queue.running():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert queue._registry is not None
        await queue._registry.tick()
        (worker,) = (await surface.client.get("/workers")).json()["workers"]
        assert (worker["there"], worker["stopping"], worker["slots"], worker["topics"]) == (True, False, 2, ["a"])
        assert [(each["id"], each["topic"], each["attempt"]) for each in worker["running"]] == [(str(job), "a", 1)]
        stats = (await surface.client.get("/stats")).json()
        assert {(each["topic"], each["state"]): each["jobs"] for each in stats["depths"]} == {("a", "processing"): 1}
        go.set()
        await queue.stop()


async def test_lists_are_pages_with_filters(dsn: str) -> None:
    async with api(dsn) as (surface, queue):
        ids = [
            str(each.id)
            for each in await queue.enqueue_many([Job("a", n, tags=("even",) * (n % 2 == 0)) for n in range(5)])
        ]
        first = (await surface.client.get("/jobs", params={"limit": 2})).json()
        second = (await surface.client.get("/jobs", params={"limit": 3, "before": first["next"]})).json()
        assert [each["id"] for each in first["jobs"] + second["jobs"]] == ids[::-1]
        assert (await surface.client.get("/jobs", params={"limit": 5, "before": ids[0]})).json() == {
            "jobs": [],
            "next": None,
        }
        even = (await surface.client.get("/jobs", params={"tag": "even", "state": "pending"})).json()["jobs"]
        assert [each["id"] for each in even] == ids[::-2]
        for wrong in (
            {"state": "status"}, {"limit": "0"}, {"limit": "201"}, {"limit": "x"}, {"before": "x"}, {"since": "2026-01-01"},
            {"since": "2026-01-01T00:00:00"}, {"nothing": "1"}, {"topic": "No"}, {"key": "\x00"},
        ):  # fmt: skip
            problem(await surface.client.get("/jobs", params=wrong), 422, "invalid")
        problem(await surface.client.get("/jobs?limit=1&limit=2"), 422, "invalid")
        problem(await surface.client.get("/stats?limit=1"), 422, "invalid")


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"", 415, "wrong-type"), (b"{", 400, "not-json"), (b"[]", 422, "invalid"), (b"{}", 422, "invalid"),
        (b'{"topic": "A"}', 422, "invalid"), (b'{"topic": "a", "priority": 10}', 422, "invalid"),
        (b'{"topic": "a", "available_at": "2030-01-01T00:00:00"}', 422, "invalid"), (b"\xff\xfe", 400, "not-json"),
        (b'{"topic": "a", "state": "done"}', 422, "invalid"), (b'{"topic": "a", "payload": NaN}', 400, "not-json"),
        (b'{"topic": "a", "payload": "\\u0000"}', 422, "invalid"), (b'{"topic": "a", "idempotency_key": 5}', 422, "invalid"),
        (b'{"topic": "a", "payload": "\\ud800"}', 400, "not-json"), (b'{"topic": "a", "tags": ["\\n"]}', 422, "invalid"),
        (b'{"topic": "a", "metadata": {"a": "\\u0000"}}', 422, "invalid"), (b"[" * 100_000, 422, "invalid"),
        (b'{"topic": "a", "payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400, "not-json"),
        (b'{"topic": "a", "idempotency_key": "' + "é".encode() * 513 + b'"}', 422, "invalid"),
        (b'{"topic": "a", "payload": "' + b"x" * 2**20 + b'"}', 422, "invalid"),
        (b'{"topic": "a", "payload": "' + b"x" * MAX_BODY + b'"}', 413, "too-large"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_what_is_wrong_with_a_job_is_said_and_nothing_is_written(
    dsn: str, observer: Observer, body: bytes, status: int, kind: str
) -> None:
    async with api(dsn) as (surface, _):
        headers = {"content-type": "application/json"} if body else {}
        said = problem(await surface.client.post("/jobs", content=body, headers=headers), status, kind)
        assert "Traceback" not in json.dumps(said)
        assert observer.value("select count(*) from job") == 0


@pytest.mark.security("S5")
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
async def test_without_the_right_token_nothing_is_told_and_nothing_is_done(deed: Any) -> None:
    path = PREFIX + deed.path.format(id=NOBODY, topic="t")
    store = MemoryStore()
    async with served(Queue(store), token=WRITER, reading=READER) as surface:
        for headers in ({}, {"authorization": f"Bearer {'x' * 32}"}, {"authorization": f"Basic {WRITER}"}):
            answer = await surface.client.request(deed.method, path, headers=headers, content=b"not even json")
            problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        if deed.method == "POST":
            problem(await surface.client.request(deed.method, path, headers=AS_READER, json={}), 403, "forbidden")
    async with served(Queue(store)) as surface:
        # Off, never open.
        problem(await surface.client.request(deed.method, path, headers=AS_WRITER, json={}), 404, "off")
    async with served(Queue(store), reading=READER) as surface:
        # Nobody may write.
        if deed.method == "POST":
            problem(await surface.client.request(deed.method, path, headers=AS_READER, json={}), 403, "forbidden")
    assert store.jobs == []


@pytest.mark.security("S7")
async def test_payloads_are_shown_to_whoever_may_write_alone(dsn: str) -> None:
    async with api(dsn) as (surface, queue):
        id, _ = await queue.enqueue(Job("a", "secret"))
        assert (await surface.client.get(f"/jobs/{id}")).json()["payload"] == "secret"
        said = (await surface.client.get(f"/jobs/{id}", headers=AS_READER)).json()
        assert "payload" not in said
        assert "result" not in said
        assert said["topic"] == "a"


async def test_what_is_not_there_is_a_problem_too() -> None:
    async with served(Queue(MemoryStore()), token=WRITER) as surface:
        client = surface.client
        client.headers.update(AS_WRITER)
        problem(await client.get(f"{PREFIX}/nothing"), 404, "no-such-path")
        answer = await client.delete(f"{PREFIX}/jobs")
        problem(answer, 405, "no-such-method")
        assert set(answer.headers["allow"].replace(" ", "").split(",")) >= {"GET", "POST"}
        problem(
            await client.get(f"{PREFIX}/jobs/nonsense"), 503, "no-store"
        )  # a store in memory has nothing to read from
        problem(await client.get("/api/v1/nothing", headers={"authorization": "no"}), 401, "unauthorized")
        assert (await client.get("/elsewhere")).headers["content-type"].startswith("text/plain")


async def test_an_id_that_is_none_is_told(dsn: str) -> None:
    async with api(dsn) as (surface, _):
        problem(await surface.client.get("/jobs/nonsense"), 422, "invalid")
        problem(await surface.client.get(f"/jobs/{NOBODY}"), 404, "no-such-job")


async def test_a_database_that_is_away_is_a_problem_with_a_time_to_come_back(dsn: str) -> None:
    async with api("postgresql://nobody@127.0.0.1:1/none") as (surface, _):
        for path in ("/jobs", "/stats", "/workers", f"/jobs/{NOBODY}"):
            answer = await surface.client.get(path)
            problem(answer, 503, "no-database")
            assert answer.headers["retry-after"] == "5"
        problem(await surface.client.post(f"/jobs/{NOBODY}/cancel"), 503, "no-database")
