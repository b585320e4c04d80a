"""The real statements against the rules, step by step; and weakened statements, which the same steps have to find out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.database import Server
from tests.models.machine import Machine
from tests.models.steered import machine
from tests.models.tier import FULL
from tests.test_invariants import GUARDS, Guard, weakened

from brooq import StoreError, StoreUnavailable
from brooq.postgres.statement import Statements, statements

CHUNKS = 40 if FULL else 2
EXAMPLES = 250 if FULL else 60
STEPS = 50
ONLY_UNDER_RIVALS = {"claim_waits_for_a_rival", "frozen_row_stops_the_reaper", "zombie_commits_beside_a_new_claim"}
"""Guards that matter between sessions at one moment: the permutations look at those."""
BEYOND = {"claim_fails_at_the_top_of_the_integer"}
"""What nobody comes to in fifty steps."""
FENCE = ("stale_outcome_by_exchange", "stale_outcome_by_settle", "stale_renewal")
HUNTED = [
    guard
    for guard in GUARDS
    if guard.violation.__name__ in FENCE or (FULL and guard.violation.__name__ not in ONLY_UNDER_RIVALS | BEYOND)
]
QUICK = settings(
    max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, database=None, print_blob=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
HUNT = settings(QUICK, max_examples=400, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)


@pytest.fixture(scope="module")
def tried(postgres: Server) -> Iterator[type[Machine]]:
    """A machine on a database of its own."""
    with postgres.database(migrated=True) as dsn, machine(dsn) as found:
        yield found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_row_is_what_the_rules_say_after_every_step(tried: type[Machine], chunk: int) -> None:
    before = tried.place.steps
    run_state_machine_as_test(seed(chunk)(tried), settings=QUICK)
    assert tried.place.steps - before > EXAMPLES * STEPS / 4


@pytest.mark.timeout(600)
@pytest.mark.parametrize("guard", HUNTED, ids=lambda guard: f"{guard.statement}-{guard.violation.__name__}")
def test_a_weakened_statement_is_found(tried: type[Machine], guard: Guard) -> None:
    """By the rules about jobs alone: with fewer verbs it is found sooner."""
    hunt(type("Plain", (Machine,), {"place": tried.place}), weakened(guard))


STEERING = {
    "a stale tick fires": ("fire", "and next_at is not distinct from $2::timestamptz", ""),
    "a tick makes two jobs": ("fire", "on conflict do nothing", ""),
    "a limit of each worker": (
        "claim_limited", "where job.state = 'processing' and job.topic = $2::text",
        "where job.state = 'processing' and job.topic = $2::text and job.locked_by = $1",
    ),
    "a claim in a pause": ("exchange", "asked.topic <> all (array(select topic from steered))", "true"),
    "a limited claim in a pause": ("claim_limited", "and held.paused_at is null", ""),
}  # fmt: skip

SOON = ("a stale tick fires", "a tick makes two jobs")
"""Those that are found within a second or two."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STEERING if FULL else SOON)
def test_a_weakened_statement_of_steering_is_found(tried: type[Machine], name: str) -> None:
    statement, guard, instead = STEERING[name]
    right = getattr(statements("public"), statement)
    assert guard in right, "the guard is not in the statement any more: this test has to follow it"
    hunt(tried, replace(statements("public"), **{statement: right.replace(guard, instead)}))


def hunt(machine: type[Machine], weak: Statements) -> None:
    """Run the machine over weakened statements until it stumbles."""
    place = machine.place
    right = place.store._statements
    place.weaken(weak)
    try:
        with pytest.raises((AssertionError, StoreError)) as caught:  # a wrong row, or a refusal of the database's own
            run_state_machine_as_test(seed(0)(machine), settings=HUNT)
    finally:
        place.weaken(right)
    assert not isinstance(caught.value, StoreUnavailable), "it did not answer"
