"""procrastinate, with its psycopg connector."""

from __future__ import annotations

import asyncio
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.protocol import Adapter, Failure, Producer, Tally, payload

TASK = "bench"


class ProcrastinateProducer(Producer):
    """`defer` and `batch_defer`. It has no way into a caller's transaction from Python."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._task = app.configure_task(TASK, queue="bench")

    async def one(self, number: int) -> None:
        await self._task.defer_async(**payload(number))

    async def many(self, numbers: range, keys: bool = False) -> None:
        await self._task.batch_defer_async(*(payload(number) for number in numbers))

    async def close(self) -> None:
        await self._app.close_async()


class Procrastinate(Adapter):
    """`worker` is what the worker takes, `pool` its pool's size."""

    def app(self, size: int | None = None) -> Any:
        pool = {} if size is None else {"min_size": size, "max_size": size}
        return App(connector=PsycopgConnector(conninfo=self.dsn, **pool))

    async def install(self) -> None:
        async with self.app().open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def producer(self) -> Producer:
        return ProcrastinateProducer(await self.app().open_async())

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        app = self.app(self.config.get("pool"))

        async def handle(n: int, **_: Any) -> None:
            tally.begin(n)
            if tally.fail:
                raise Failure

        app.task(name=TASK, queue="bench")(handle)
        async with app.open_async():
            running = asyncio.create_task(
                app.run_worker_async(install_signal_handlers=False, queues=["bench"], **self.config["worker"])
            )
            await stop.wait()
            running.cancel()
            await asyncio.wait([running])


ADAPTER = Procrastinate
