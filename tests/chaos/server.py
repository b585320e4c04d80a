"""The PostgreSQL of a chaos run: one of its own that may be crashed, stopped, starved and made read-only."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from tests.recovery.standby import follows, make_standby, promote

from brooq.postgres.local import LocalPostgres
from brooq.postgres.local.cluster import alive

SETTINGS: dict[str, str | int | bool] = {
    # Processes crash here, not machines: what has reached the file system is safe. What is not asked to be durable is
    # lost, so that a commit which brooq has acknowledged without asking would be missed.
    "fsync": False,
    "full_page_writes": False,
    "synchronous_commit": False,
    "wal_writer_delay": "10s",
    "shared_buffers": "64MB",
    "max_connections": 100,
    "restart_after_crash": True,
}
HELD = "select id, claim_seq from job where state = 'processing' and split_part(locked_by, ':', 2) = %s"
STILL = """
select count(*) from unnest(%s::uuid[], %s::bigint[]) as held (id, token) join job using (id)
where claim_seq = token and state in ('pending', 'processing', 'failed')
"""
DROWSY = """
create table drowsy (asleep bool);
create sequence naps;
create function nap() returns trigger language plpgsql as $$ begin
    if random() < 0.15 and exists (select from drowsy) then
        perform nextval('naps'), pg_sleep(0.1 + random() * 1.4);
    end if;
    return new;
end $$;
create trigger drowsy before update on job for each row execute function nap()
"""
NAPS = "select case when is_called then last_value else 0 end from naps"
OURS = "datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"


class Server:
    """A server and the hand on it."""

    def __init__(self, folder: Path, settings: Mapping[str, str | int | bool]) -> None:
        """Not started."""
        self.local = LocalPostgres(folder, settings={**SETTINGS, **settings})
        self.down = asyncio.Lock()
        self.standby: LocalPostgres | None = None

    @property
    def dsn(self) -> str:
        """The superuser's."""
        return self.local.dsn

    async def start(self) -> None:
        """Start it, and return when it takes connections."""
        await asyncio.to_thread(self.local.start)

    async def stop(self) -> None:
        """Stop it for good."""
        await asyncio.to_thread(self.local.stop)

    async def ask(self, *queries: LiteralString, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements, each with these values; waits for a server that is away."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True, connect_timeout=5) as link:
                    for query in queries:
                        cursor = await link.execute(query, values or None)
                    return await cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                await asyncio.sleep(0.05)

    async def held(self, pid: int) -> dict[UUID, int]:
        """The jobs that a worker process has in hand, each with the fence of its claim."""
        return dict(await self.ask(HELD, values=[str(pid)]))

    async def still(self, held: Mapping[UUID, int]) -> int:
        """How many of these have not ended, and nobody has claimed them since."""
        values = [list(held), list(held.values())]
        return int((await self.ask(STILL, values=values))[0][0])

    async def backends(self) -> list[int]:
        """The processes of other sessions."""
        return [pid for (pid,) in await self.ask(
            "select pid from pg_stat_activity where application_name = 'brooq' and pid <> pg_backend_pid() order by pid"
        )]  # fmt: skip

    async def cut(self, random: Random) -> None:
        """End one session of brooq."""
        found = await self.backends()
        if found:
            chosen = random.choice(found)
            async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as link:
                await link.execute("select pg_terminate_backend(%s)", [chosen])

    async def cut_all(self) -> None:
        """End every session of brooq."""
        await self.ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'brooq'")

    async def crash(self, random: Random) -> None:
        """kill -9 of one session's process: the postmaster ends all others and begins anew."""
        async with self.down:
            found = await self.backends()
            if found:
                began = await self.ask("select pg_postmaster_start_time()::text, pid from pg_stat_activity"
                                       " where backend_type = 'checkpointer'")  # fmt: skip
                os.kill(random.choice(found), signal.SIGKILL)
                while True:
                    now = await self.ask("select pg_postmaster_start_time()::text, pid from pg_stat_activity"
                                         " where backend_type = 'checkpointer'")  # fmt: skip
                    if now and now != began:
                        return
                    await asyncio.sleep(0.02)

    async def immediate(self, seconds: float) -> None:
        """An immediate stop, as a power cut would be for the server's memory; it is away for a while."""
        async with self.down:
            os.kill(self.local.pid, signal.SIGQUIT)
            await self.stop()
            await asyncio.sleep(seconds)
            await self.start()

    async def follow(self, folder: Path) -> None:
        """Give it a standby in a new folder, that every acknowledged commit waits for."""
        self.standby = await asyncio.to_thread(make_standby, self.local, folder, {"fsync": False})
        await asyncio.to_thread(self.standby.start)
        await self.ask("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        while not await asyncio.to_thread(follows, self.dsn):  # noqa: ASYNC110  the server has no event to wait for
            await asyncio.sleep(0.05)

    async def alone(self) -> None:
        """Stop the standby, if there is one."""
        if self.standby is not None:
            await asyncio.to_thread(self.standby.stop)

    async def fail_over(self) -> None:
        """The server dies for good, and its standby takes its place, with none of its own."""
        async with self.down:
            assert self.standby is not None
            os.kill(self.local.pid, signal.SIGQUIT)
            await self.stop()
            await asyncio.to_thread(promote, self.standby.dsn)
            self.local, self.standby = self.standby, None

    async def doze(self, seconds: float) -> int:
        """Now and then a change of a job takes long, for a while; answers how often it did."""
        ((before,),) = await self.ask("insert into drowsy values (true)", NAPS)
        await asyncio.sleep(seconds)
        ((after,),) = await self.ask("delete from drowsy", NAPS)
        return int(after - before)

    async def read_only(self, seconds: float) -> None:
        """Every transaction is refused to write, for a while."""
        async with self.down:
            await self.ask("alter system set default_transaction_read_only = on", "select pg_reload_conf()")
            await asyncio.sleep(seconds)
            await self.ask(
                "set default_transaction_read_only = off",
                "alter system reset default_transaction_read_only",
                "select pg_reload_conf()",
            )

    async def fill(self, seconds: float) -> None:
        """No connection is left for anybody, and those that are there are cut."""
        async with self.down:
            idle: list[psycopg.AsyncConnection[Any]] = []
            hand = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
            try:
                loop = asyncio.get_running_loop()
                end = loop.time() + seconds
                while loop.time() < end:
                    await hand.execute("select pg_terminate_backend(pid) from pg_stat_activity"
                                       " where application_name = 'brooq'")  # fmt: skip
                    try:
                        while True:
                            idle.append(await psycopg.AsyncConnection.connect(self.dsn, application_name="filler"))
                    except psycopg.OperationalError:
                        await asyncio.sleep(0.05)
            finally:
                for connection in (*idle, hand):
                    await connection.close()

    async def fill_disk(self, folder: Path, seconds: float) -> None:
        """The file system of the data has no byte left, for a while; a server that gave up is started again."""
        async with self.down:
            filler = folder / "filler"
            try:
                with filler.open("wb", buffering=0) as file:
                    try:
                        while True:
                            file.write(b"\0" * 65536)
                    except OSError:
                        pass
                await asyncio.sleep(seconds)
            finally:
                filler.unlink(missing_ok=True)
            if not alive(self.local.pid):
                await self.stop()
                await self.start()


@contextmanager
def tmpfs(folder: Path, megabytes: int) -> Iterator[None]:
    """A small file system in memory. Raises OSError where it cannot be mounted."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
