"""The same permutations by PostgreSQL's own isolation tester, where it is installed: specs made from the same statements.

The store's calls are recorded as SQL, their parameters put in as literals, and the tester's output is read for which steps
waited and for what is in the table at the end.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from tests.models.operation import JOB, KEY, OPERATIONS, SessionStore
from tests.models.permutation import LOOK, PREPARE, Driver, Order
from tests.models.protocol import Row
from tests.simulation.mutant import planted

from brooq.postgres.drivers.psycopg import PsycopgSession
from brooq.postgres.statement import statements

PLACES = Path("/usr/lib/postgresql")
SIDES = "ab"
Seen = tuple[frozenset[str], str]
"""The steps that waited, and the table afterwards."""


def isolation_tester() -> Path | None:
    """The newest one of Debian's packages; None when there is none."""
    found = sorted(PLACES.glob("*/lib/pgxs/src/test/isolation/isolationtester"))
    return found[-1] if found else None


async def recorded(dsn: str, name: str) -> list[str]:
    """The first statement of each step of an operation, as SQL with its values in it."""
    told: list[str] = []
    original = PsycopgSession.fetch

    async def fetch(session: Any, statement: str, parameters: Sequence[Any] = (), **options: Any) -> Any:
        told.append(with_values(statement, parameters))
        return await original(session, statement, parameters, **options)

    texts = []
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        store = SessionStore(connection, statements("public"))
        for step in OPERATIONS[name].steps:
            told.clear()
            with planted(PsycopgSession, "fetch", fetch):
                await step(
                    store, 0, ["settled"]
                )  # there is no job here; what follows an outcome is asked for all the same
            texts.append(told[0])
        await connection.rollback()
    return texts


def with_values(query: str, params: Sequence[Any]) -> str:
    """Without comments, and without braces, at which a spec ends its SQL."""
    bare = re.sub(r"--.*", "", query)
    return re.sub(r"\$(\d+)", lambda match: literal(params[int(match[1]) - 1]), bare)


def literal(value: Any) -> str:
    """A value as SQL writes it."""
    match value:
        case None:
            return "null"
        case list():
            return f"array[{', '.join(map(literal, value))}]"
        case int() | float():
            return str(value)
        case timedelta():
            return f"interval '{value.total_seconds()} seconds'"
        case UUID():
            return f"'{value}'::uuid"
        case datetime():
            return f"'{value.isoformat()}'::timestamptz"
    return "'" + str(value).replace("'", "''") + "'"


async def spec(dsn: str, pair: tuple[str, str], scene: Row, taken: Sequence[Order]) -> str:
    """A spec of these permutations; each ends with a look at the table."""
    values = scene._asdict() | {"id": JOB, "key": KEY, "state": str(scene.state)}
    prepare = re.sub(r"%\((\w+)\)s", lambda match: literal(values[match[1]]), PREPARE)
    lines = [f"setup {{ delete from job; {prepare} }}"]
    for side, name in zip(SIDES, pair, strict=True):
        texts = ["begin isolation level read committed", *(await recorded(dsn, name)), "commit"]
        lines.append(f"session {side}")
        lines += [f"step {side}{number} {{ {text}; }}" for number, text in enumerate(texts)]
    lines += ["session look", f"step look {{ {LOOK} as seen; }}"]
    lines += [f"permutation {' '.join(labels(order))} look" for order in taken]
    return "\n".join(lines) + "\n"


def labels(order: Order) -> list[str]:
    """The names of the steps: a0, a1, b0 …"""
    return [f"{SIDES[side]}{order[:place].count(side)}" for place, side in enumerate(order)]


def run(program: Path, dsn: str, text: str) -> list[Seen]:
    """What the tester saw, a permutation after the other."""
    done = subprocess.run([program, dsn], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    found = []
    for block in done.stdout.split("starting permutation: ")[1:]:
        steps = re.split(r"^step (\w+): ", block, flags=re.MULTILINE)[1:]
        waited = {name for name, body in zip(steps[::2], steps[1::2], strict=True) if "<waiting ...>" in body}
        seen = re.search(r"^-+$\n(.+)\n\(1 row\)", steps[-1], flags=re.MULTILINE)
        assert steps[-2] == "look", block
        assert seen, block
        found.append((frozenset(waited), seen[1].strip()))
    return found


async def by_driver(found: Driver, pair: tuple[str, str], scene: Row, order: Order) -> Seen | None:
    """The same by our own driver; None when the permutation cannot be, or when a session chains nothing: what the engine
    then leaves out, a spec cannot."""
    result = await found.run(pair, scene, order)
    if result is None or any(
        "nothing" in answer for name, answer in zip(pair, result.answers, strict=True) if name == "chain"
    ):
        return None
    places = {f"{name} {side + 1}.": SIDES[side] for side, name in enumerate(pair)}
    waited = {re.sub(r"^.* \d\.", lambda match: places[match[0]], step) for step in result.waited}
    return frozenset(waited), result.table
