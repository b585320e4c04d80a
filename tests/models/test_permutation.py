"""Every pair of statements in every order of their steps, against the serial orders and against what is committed here.

`BROOQ_MODELS=write make test ARGS=tests/models/test_permutation.py` writes the expected outcomes anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.database import Server
from tests.models.operation import JOB_VERBS, SCENES
from tests.models.permutation import PAIRS, driver, orders, outcomes
from tests.models.tester import by_driver, isolation_tester, run, spec
from tests.models.tier import FULL
from tests.test_invariants import GUARDS, weakened

EXPECTED = Path(__file__).parent / "expected"


@pytest.fixture(scope="module")
def permuted(postgres: Server) -> Iterator[str]:
    """A database for all permutations."""
    with postgres.database(migrated=True) as dsn:
        yield dsn


def test_every_pair_is_tried_in_every_order() -> None:
    assert len(PAIRS) == 53
    assert len({"-".join(sorted(pair)) for pair in PAIRS}) == 53
    assert len([pair for pair in PAIRS if set(pair) <= set(JOB_VERBS)]) == 36
    assert [sum(1 for _ in orders(pair)) for pair in (("settle", "reap"), ("settle", "chain"), ("chain", "chain"))] == [
        20, 35, 70,
    ]  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_a_pair_of_statements(permuted: str, pair: tuple[str, str]) -> None:
    async with driver(permuted) as found:
        lines, wrong = await outcomes(found, pair)
    assert not wrong, "no serial order gives this:\n" + "\n".join(wrong)
    path = EXPECTED / f"{'-'.join(pair)}.txt"
    if os.environ.get("BROOQ_MODELS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("violation", "pair", "breaks"),
    [
        ("held_job_claimed_again", ("exchange", "exchange"), True),
        ("stale_outcome_by_settle", ("settle", "settle"), True),
        ("finality_broken_by_settle", ("settle", "cancel"), True),
        ("finality_broken_by_cancel", ("settle", "cancel"), True),
        ("claim_waits_for_a_rival", ("exchange", "exchange"), False),
        ("frozen_row_stops_the_reaper", ("settle", "reap"), False),
        ("zombie_commits_beside_a_new_claim", ("assert_held", "retake"), False),
    ],
)
async def test_a_weakened_statement_is_found(
    permuted: str, violation: str, pair: tuple[str, str], breaks: bool
) -> None:
    """By a result that no serial order gives, or by another course of things than is written down."""
    guards = [guard for guard in GUARDS if guard.violation.__name__ == violation]
    assert guards
    async with driver(permuted) as found:
        for guard in guards:  # there may be several statements that claim
            found.texts = replace(found.texts, **{guard.statement: getattr(weakened(guard), guard.statement)})
        lines, wrong = await outcomes(found, pair)
    assert bool(wrong) == breaks
    assert lines != (EXPECTED / f"{'-'.join(pair)}.txt").read_text(encoding="utf-8").splitlines()


CLASSIC = [("settle", "cancel")]
JOB_PAIRS = [pair for pair in PAIRS if set(pair) <= set(JOB_VERBS)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pair", JOB_PAIRS if FULL else CLASSIC, ids="-".join)
async def test_the_isolation_tester_of_postgresql_sees_the_same(permuted: str, pair: tuple[str, str]) -> None:
    program = isolation_tester()
    if program is None:
        pytest.skip("there is no isolationtester here: it is in Debian's postgresql-client-15")
    for scene in SCENES.values():
        async with driver(permuted) as found:
            ours = {order: seen for order in orders(pair) if (seen := await by_driver(found, pair, scene, order))}
        theirs = run(program, permuted, await spec(permuted, pair, scene, list(ours))) if ours else []
        assert dict(zip(ours, theirs, strict=True)) == ours
