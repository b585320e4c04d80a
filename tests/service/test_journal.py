"""The journal of handlers and the log of producers: what they write, and that nothing of it changes a handler."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brooq import Claim, Config, Job, MustCancel, PayloadError, Queue
from brooq.service.journal import Journal, ProducerLog
from brooq.testing import MemoryStore


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  the store in memory has no event
            await asyncio.sleep(0.005)


async def run(path: Path, handler: Callable[[Claim], Any], job: Job) -> tuple[MemoryStore, list[dict[str, Any]]]:
    """One job through a queue whose handler has a journal."""
    journal, store = Journal(path), MemoryStore()
    queue = Queue(store, Config(poll_interval=0.01, max_attempts=1))
    queue.register_kind("t", journal.around(handler))
    queue.listen(journal)
    await queue.enqueue(job)
    async with queue:
        await until(lambda: all(each.state.terminal for each in store.jobs))
    journal.close()
    return store, lines(path)


async def test_a_run_is_written_down_from_its_claim_to_its_outcome(tmp_path: Path) -> None:
    child = Job("u", idempotency_key="k")

    async def handler(claim: Claim) -> None:
        claim.chain(child)

    job = Job("t")
    _, found = await run_without_children(tmp_path / "j", handler, job)
    assert [line["kind"] for line in found] == ["claimed", "start", "chain", "end", "done"]
    assert {line["job"] for line in found} == {str(job.id)}
    assert {line["token"] for line in found} == {1}
    start, chain, end = found[1:4]
    assert (start["topic"], start["attempt"], start["max_attempts"]) == ("t", 1, 5)
    assert start["owner"].count(":") == 2
    assert (chain["child"], chain["key"]) == (str(child.id), "k")
    assert (end["result"], end["interruption"]) == ("returned", None)


async def run_without_children(path: Path, handler: Any, job: Job) -> tuple[MemoryStore, list[dict[str, Any]]]:
    """As `run`; children of other topics stay where they are."""
    journal, store = Journal(path), MemoryStore()
    queue = Queue(store, Config(poll_interval=0.01))
    queue.register_kind("t", journal.around(handler))
    queue.listen(journal)
    await queue.enqueue(job)
    async with queue:
        await until(lambda: any(each.id == job.id and each.state.terminal for each in store.jobs))
        await until(lambda: '"kind":"done"' in path.read_text())
    journal.close()
    return store, lines(path)


async def test_an_error_and_its_signal_are_written_down_and_reach_the_engine(tmp_path: Path) -> None:
    async def handler(_: Claim) -> None:
        raise RuntimeError from MustCancel("pointless")

    store, found = await run(tmp_path / "j", handler, Job("t"))
    end = next(line for line in found if line["kind"] == "end")
    assert (end["result"], end["error"], end["signal"]) == ("raised", "RuntimeError", "MustCancel")
    assert [str(each.state) for each in store.jobs] == ["canceled"]


async def test_effects_are_written_down_by_the_handler(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")

    async def handler(claim: Claim) -> None:
        journal.effect(claim)
        journal.effect(claim, tx=True)

    await run(tmp_path / "other", handler, Job("t"))
    journal.close()
    assert [(line["kind"], line["tx"]) for line in lines(tmp_path / "j")] == [("effect", False), ("effect", True)]


async def test_producers_write_down_what_they_ask_and_what_they_are_told(tmp_path: Path) -> None:
    log, queue = ProducerLog(tmp_path / "p"), Queue(MemoryStore())
    first, second, refused = Job("t", 1, "k"), Job("t", 2, "k"), Job("t", float("nan"))
    await log.enqueue(queue, first)
    await log.enqueue(queue, second)
    with pytest.raises(PayloadError):
        await log.enqueue(queue, refused)
    log.unknown(first)
    log.adopt(first.id, "t")
    log.close()
    found = lines(tmp_path / "p")
    assert [line["kind"] for line in found] == [
        "invoke",
        "ok",
        "invoke",
        "ok",
        "invoke",
        "fail",
        "info",
        "invoke",
        "ok",
    ]
    assert (found[0]["topic"], found[0]["key"]) == ("t", "k")
    assert [(line["job"], line["id"], line["created"]) for line in (found[1], found[3])] == [
        (str(first.id), str(first.id), True),
        (str(second.id), str(first.id), False),
    ]


def test_the_files_are_their_owners_and_are_appended_to(tmp_path: Path) -> None:
    for number in range(2):
        journal = Journal(tmp_path / "j")
        journal.write("x", {"job": str(number)})
        journal.close()
    assert [line["job"] for line in lines(tmp_path / "j")] == ["0", "1"]
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o600
