"""A standby of the chaos runs' server, which every acknowledged commit waits for, and its promotion."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from brooq.postgres.local import account
from brooq.postgres.local.binaries import Binaries, find


class Standby:
    """A second server that follows the first one."""

    def __init__(self, primary: str, folder: Path) -> None:
        """`primary` is the DSN of the server to follow; `folder` is empty."""
        self._primary = primary
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.dsn = ""

    async def start(self) -> None:
        """Copy the primary, follow it, and let its commits wait for us from now on."""
        binaries = find()
        data = self._folder / "data"
        copy = [str(binaries.folder / "pg_basebackup"), "-D", str(data), "-R", "-X", "stream", "-c", "fast"]
        await asyncio.to_thread(subprocess.run, [*copy, "-d", self._primary], check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
        # In this thread: the server ends with the thread that has started it.
        self._process = self._launch(data, port, binaries)
        self.dsn = make_conninfo(self._primary, port=port)
        await self._until(self.dsn, "select pg_is_in_recovery()")
        async with await psycopg.AsyncConnection.connect(self._primary, autocommit=True) as link:
            await link.execute("alter system set synchronous_standby_names = '*'")
            await link.execute("select pg_reload_conf()")
        await self._until(self._primary, "select count(*) = 1 from pg_stat_replication where sync_state = 'sync'")

    def _launch(self, data: Path, port: int, binaries: Binaries) -> subprocess.Popen[bytes]:
        chosen, binaries = account.choose(self._folder, data, binaries)
        options = [f"-D{data}"]
        for setting in (f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"):
            options += ["-c", setting]
        with (self._folder / "log").open("wb") as log:
            return subprocess.Popen(
                account.command(chosen, "bound", data, binaries.postgres, *options),
                env=account.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    async def promote(self) -> None:
        """From now on it takes writes."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as link:
            await link.execute("select pg_promote()")
        await self._until(self.dsn, "select not pg_is_in_recovery()")

    async def stop(self) -> None:
        """End it, with its data."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            await asyncio.to_thread(self._process.wait, 60)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _until(self, dsn: str, condition: str) -> None:
        while True:
            assert self._process is None or self._process.poll() is None, (self._folder / "log").read_text()
            try:
                async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=5) as link:
                    if (await (await link.execute(condition.encode())).fetchone()) == (True,):
                        return
            except psycopg.OperationalError:
                pass
            await asyncio.sleep(0.05)
