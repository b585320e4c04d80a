"""Connections to the surface: bounded in number, size and time, so that jobs go on and others get in."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.service.server import Served, eventually, served

from brooq import Claim, Config, Job, Queue
from brooq.service.connection import MAX_HEADERS, BoundedProtocol, bounded
from brooq.testing import MemoryStore

pytestmark = pytest.mark.security("S25")
MOST = 20
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def crowded(most: int = MOST, **times: float) -> AsyncIterator[tuple[Served, type[BoundedProtocol]]]:
    """A surface with room for few, and short times."""
    protocol = bounded(most, **times)
    async with served(Queue(MemoryStore()), protocol=protocol) as surface:
        yield surface, protocol


async def connect(port: int, sends: bytes = b"") -> asyncio.StreamWriter:
    """A client that says a little, and no more."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sends)
    return writer


@pytest.mark.parametrize("sends", [b"", b"GET", HEAD, HEAD + b"Content-Length: 10\r\n\r\nabc"])
async def test_a_crowd_that_sends_nothing_keeps_nobody_out(sends: bytes) -> None:
    async with crowded() as (surface, protocol):
        held = [await connect(surface.port, sends) for _ in range(5 * MOST)]
        await eventually(lambda: protocol.crowd.count <= MOST)
        for _ in range(3):
            assert (await surface.client.get("/readyz")).status_code == 503
        assert protocol.crowd.count <= MOST
        for writer in held:
            writer.close()
        await eventually(lambda: protocol.crowd.count <= 1)
        assert len(protocol.crowd.waiting) == protocol.crowd.count


@pytest.mark.parametrize("sends", [b"", b"GET", HEAD, HEAD + b"Content-Length: 10\r\n\r\nabc"])
async def test_whoever_is_slow_is_cut_off(sends: bytes) -> None:
    async with crowded(request_time=0.2) as (surface, protocol):
        reader, writer = await asyncio.open_connection("127.0.0.1", surface.port)
        begun = asyncio.get_running_loop().time()
        for each in sends:
            # A byte now and then is no reason to wait longer.
            writer.write(bytes([each]))
            await asyncio.sleep(0.005)
        async with asyncio.timeout(20):
            try:
                while await reader.read(1000):
                    pass
            except ConnectionError:
                pass
        assert asyncio.get_running_loop().time() - begun >= 0.1
        writer.close()
        await eventually(lambda: protocol.crowd.count == 0)


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with crowded(read_time=0.2) as (surface, protocol):
        reader, writer = await asyncio.open_connection("127.0.0.1", surface.port, limit=1)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        metrics = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try:
            async with asyncio.timeout(20):
                while protocol.crowd.count:
                    writer.write(metrics * 50)
                    await asyncio.sleep(0.01)
        finally:
            writer.transport.abort()
        assert (await surface.client.get("/healthz")).status_code == 200


async def test_requests_one_after_the_other_on_one_connection_are_answered() -> None:
    async with crowded(request_time=0.3) as (surface, protocol):
        reader, writer = await asyncio.open_connection("127.0.0.1", surface.port)
        for number in range(5):
            writer.write(HEAD + b"\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            await asyncio.sleep(0.1 * (number == 2) * 4)  # longer than a request may take: none is on its way
        writer.close()
        await eventually(lambda: protocol.crowd.count == 0)


@pytest.mark.parametrize("size", [MAX_HEADERS * 2, 8 * 1024 * 1024])
async def test_huge_headers_are_refused_and_not_kept(size: int) -> None:
    async with crowded() as (surface, protocol):
        answered = 0
        for _ in range(5):
            try:
                answer = await surface.raw(HEAD + b"X: " + b"x" * size + b"\r\n\r\n")
                assert int(answer.split()[1]) in {400, 431}
                answered += 1
            except ConnectionError:
                pass  # the answer was on its way while the rest of the header was being sent
        await eventually(lambda: protocol.crowd.count == 0)
        assert (await surface.client.get("/healthz")).status_code == 200


async def test_jobs_go_on_while_as_many_connect_as_this_machine_allows() -> None:
    """Ten thousand where the limits allow it; both ends are in this process, so each takes two descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    number = min(10_000, hard - 500) if hard != resource.RLIM_INFINITY else 10_000
    done = 0

    async def handler(claim: Claim) -> None:
        nonlocal done
        done += 1

    def more_than(before: int) -> bool:
        return done > before

    queue = Queue(MemoryStore(), Config(workers=4, poll_interval=0.01))
    queue.register_kind("t", handler)
    held = []
    try:
        async with queue, served(queue) as surface:
            for begun in range(0, number, 100):
                held += [await connect(surface.port, HEAD) for _ in range(min(100, number - begun))]
                before = done
                await queue.enqueue(Job("t"))
                await eventually(partial(more_than, before))
            assert (await surface.client.get("/healthz")).status_code == 200
            assert len(held) == number
            for writer in held:
                writer.transport.abort()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
