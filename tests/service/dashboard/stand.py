"""The dashboard of a real queue, on a real socket, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from brooq import Queue
from brooq.service.dashboard.site import Dashboard
from brooq.service.health import Health
from brooq.service.http import Part, Surface, make_application
from brooq.service.loopback import Address, listen
from brooq.service.metrics import make_registry
from brooq.service.secret import Secret
from brooq.service.token import Tokens

WRITING, READING = "w" * 43, "r" * 43


@dataclass
class Stand:
    """A dashboard that answers."""

    base: str
    tokens: Tokens
    dashboard: Dashboard

    @asynccontextmanager
    async def client(self, token: str | None = WRITING, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """Somebody who is logged in, as a browser would be; None: nobody."""
        same = {"sec-fetch-site": "same-origin", "accept": "text/html", **headers}
        async with httpx.AsyncClient(base_url=self.base, headers=same, timeout=20, trust_env=False) as made:
            if token is not None:
                answer = await made.post("/login", data={"token": token, "name": "Anna"})
                assert answer.status_code == 303, answer.text
            yield made


@asynccontextmanager
async def stand(queue: Queue | None, *, payloads: bool = False, tokens: Tokens | None = None) -> AsyncIterator[Stand]:
    """Serve the dashboard of a queue for the length of a block."""
    listener = listen(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    tokens = Tokens([Secret(WRITING)], [Secret(READING)]) if tokens is None else tokens
    dashboard = Dashboard(tokens, payloads=payloads)
    if queue is not None:
        dashboard.watch(queue.store)
    health = Health()

    async def made() -> Sequence[Part]:
        return [dashboard]

    surface = Surface(make_application(health, make_registry(), tokens, made), listener)
    surface.start()
    try:
        yield Stand(f"http://127.0.0.1:{port}", tokens, dashboard)
    finally:
        await dashboard.close()
        await surface.stop()
        await health.close()
