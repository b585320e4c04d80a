"""A system on its database: installed once, a fresh copy for every measurement, filled outside of the timed part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.environment import Environments
from bench.place import Place
from bench.process import Peer
from bench.systems import System

PATIENCE = 120.0
ENQUEUED_AT_LEAST = 300.0
"""Jobs a second that filling surely reaches, for its deadline."""


@dataclass(slots=True)
class Stage:
    """Where a system is measured."""

    place: Place
    environments: Environments
    _installed: set[str] = field(default_factory=set)

    def start(self, system: System, do: str, dsn: str, **spec: Any) -> Peer:
        """Its adapter, about to do something."""
        return Peer(self.environments.command(system), {"do": do, "dsn": dsn, **spec})

    def fresh(self, system: System, state: str = "") -> str:
        """A fresh copy of its database, as installed or as kept under the name of a state; the DSN."""
        template = f"{system.database}_{state or 'installed'}"
        if template not in self._installed and not state:
            dsn = self.place.create(template)
            with self.start(system, "install", dsn) as peer:
                peer.need("stopped", PATIENCE)
            self._installed.add(template)
        return self.place.create(system.database, template)

    def keep(self, system: System, state: str) -> None:
        """Keep the database as it is now under the name of a state."""
        self.place.settle(system.database)
        self.place.create(f"{system.database}_{state}", system.database)
        self._installed.add(f"{system.database}_{state}")

    def knows(self, system: System, state: str) -> bool:
        """Whether that state has been kept in this run."""
        return f"{system.database}_{state}" in self._installed

    def enqueue(self, system: System, dsn: str, jobs: int, config: dict[str, Any], first: int = 0) -> None:
        """Put ready jobs into it, with its own bulk interface."""
        with self.start(system, "enqueue", dsn, jobs=jobs, first=first, mode="bulk", config=config) as peer:
            peer.need("ready", PATIENCE)
            peer.say("go")
            peer.need("done", PATIENCE + jobs / ENQUEUED_AT_LEAST)
            peer.say("stop")
            peer.need("stopped", PATIENCE)

    def close(self) -> None:
        """Drop all databases of ours."""
        for (name,) in self.place.sql(r"select datname from pg_database where datname like 'bench\_%'"):
            self.place.drop(name)
