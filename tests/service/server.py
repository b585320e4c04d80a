"""The HTTP surface on a real socket, for tests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from brooq import Queue
from brooq.service.app import probe_of
from brooq.service.connection import BoundedProtocol
from brooq.service.health import Health, Probe
from brooq.service.http import Surface, make_application
from brooq.service.loopback import Address, listen
from brooq.service.metrics import EngineCollector, make_registry
from brooq.service.parts import Parts
from brooq.service.secret import Secret
from brooq.service.token import Tokens


async def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  conditions of threads and databases set no event
            await asyncio.sleep(0.01)


@dataclass
class Served:
    """A surface that answers."""

    port: int
    client: httpx.AsyncClient

    async def raw(self, request: bytes) -> bytes:
        """Send bytes as they are, return all that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            await writer.drain()
            return await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()

    async def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels, as it is written."""
        answer = await self.client.get("/metrics")
        assert answer.status_code == 200
        lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@asynccontextmanager
async def served(
    queue: Queue | None = None,
    *,
    token: str | None = None,
    reading: str | None = None,
    probe: Probe | None = None,
    patience: float = 2.0,
    protocol: type[BoundedProtocol] | None = None,
) -> AsyncIterator[Served]:
    """Serve the surface of a queue for the length of a block. `token` may write, `reading` only read."""
    health, collector = Health(patience), EngineCollector()
    if queue is not None:
        health.watch(queue, probe or probe_of(queue))
        collector.watch(queue)
    listener: socket.socket = listen(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    tokens = Tokens(
        [] if token is None else [Secret(token)],
        [] if reading is None else [Secret(reading)],
    )
    parts = Parts(tokens)
    if queue is not None:
        parts.watch(queue.store)
    surface = Surface(make_application(health, make_registry(collector), tokens, parts.made), listener, protocol)
    surface.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False) as client:
            yield Served(port, client)
    finally:
        await health.close()
        await surface.stop()
        await parts.close(5)
