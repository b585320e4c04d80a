"""DBOS: a workflow without steps stands for a job."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("DBOS__APPVERSION", "bench")  # workers take what their own version has enqueued

from dbos import DBOS, DBOSClient

from bench.peers.protocol import Adapter, Failure, Producer, Spec, Tally, payload

QUEUE = "bench"
THREADS = 8


class DbosProducer(Producer):
    """The client for producers outside. It has no bulk interface: eight threads."""

    def __init__(self, dsn: str) -> None:
        self._client = DBOSClient(system_database_url=dsn, system_database_pool_size=THREADS)
        self._threads = ThreadPoolExecutor(THREADS)

    def _enqueue(self, number: int, key: str | None = None) -> None:
        options: dict[str, Any] = {"queue_name": QUEUE, "workflow_name": "handle", "app_version": "bench"}
        if key:
            options["workflow_id"] = key
        self._client.enqueue(options, payload(number))

    async def one(self, number: int) -> None:
        self._enqueue(number)

    async def many(self, numbers: range, keys: bool = False) -> None:
        waiting = [self._threads.submit(self._enqueue, n, f"key-{n}" if keys else None) for n in numbers]
        for future in waiting:
            await asyncio.wrap_future(future)

    async def close(self) -> None:
        self._threads.shutdown()
        self._client.destroy()


class Dbos(Adapter):
    """`queue` is what `register_queue` takes."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.dsn = self.dsn.replace("postgresql://", "postgresql+psycopg://", 1)

    def _dbos(self) -> Any:
        return DBOS(config={"name": "bench", "system_database_url": self.dsn, "log_level": "ERROR"})

    async def install(self) -> None:
        self._dbos()
        await asyncio.to_thread(DBOS.launch)
        await asyncio.to_thread(DBOS.destroy)

    async def producer(self) -> Producer:
        return DbosProducer(self.dsn)

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        self._dbos()

        def handle(job: dict[str, Any]) -> None:
            tally.begin(job["n"])
            if tally.fail:
                raise Failure

        DBOS.workflow(name="handle")(handle)

        def launch() -> None:
            DBOS.launch()
            DBOS.register_queue(QUEUE, **self.config["queue"])

        await asyncio.to_thread(launch)
        await stop.wait()
        await asyncio.to_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=10))


ADAPTER = Dbos
