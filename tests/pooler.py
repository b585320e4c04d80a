"""PgBouncer in transaction mode before a database, for tests."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.tools import pgbouncer

CONFIGURATION = """
[databases]
{dbname} = host={host} port={port} dbname={dbname} user={user}{secret}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
server_lifetime = 5
"""


class Pooler:
    """Two server connections for everybody. Runs between `with`; without the program the test is skipped."""

    def __init__(self, dsn: str, folder: Path) -> None:
        """`folder` takes its configuration and its log."""
        self._tool = pgbouncer()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        place = conninfo_to_dict(dsn)
        values = {"host": "127.0.0.1", "port": "5432", "user": "postgres"} | place | {"listen": port}
        password = str(place.get("password") or "").replace("'", "''")
        self._file, self._log = folder / "pgbouncer.ini", folder / "pgbouncer.log"
        self._file.write_text(CONFIGURATION.format(secret=f" password='{password}'" if password else "", **values))
        self._process: subprocess.Popen[bytes] | None = None
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port)

    def start(self) -> None:
        """Start, and return when it answers."""
        # It refuses to run as root.
        account = ["-u", "nobody"] if os.geteuid() == 0 else []
        line = [self._tool.program, *account, str(self._file)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(line, env=self._tool.environment, stdout=log, stderr=log)
        while True:
            assert self._process.poll() is None, self._log.read_text()
            try:
                with psycopg.connect(
                    self.dsn, autocommit=True, prepare_threshold=None, connect_timeout=2
                ) as connection:
                    connection.execute("select 1")
                    return
            except psycopg.OperationalError:
                continue

    def stop(self) -> None:
        """Stop at once; its clients are cut off."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=20)
            self._process = None

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
