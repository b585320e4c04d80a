"""The real statements against the rules, step by step; and weakened statements, which the same steps have to find out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.database import Server
from tests.models.machine import Machine, machine
from tests.models.tier import FULL
from tests.test_invariants import GUARDS, Guard, weakened

from brooq import StoreError, StoreUnavailable

CHUNKS = 40 if FULL else 2
EXAMPLES = 250 if FULL else 60
STEPS = 50
ONLY_UNDER_RIVALS = {"claim_waits_for_a_rival", "frozen_row_stops_the_reaper"}
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("guard", HUNTED, ids=lambda guard: f"{guard.statement}-{guard.violation.__name__}")
def test_a_weakened_statement_is_found(tried: type[Machine], guard: Guard) -> None:
    place = tried.place
    right = place.store._statements
    place.weaken(weakened(guard))
    try:
        with pytest.raises((AssertionError, StoreError)) as caught:  # a wrong row, or a refusal of the database's own
            run_state_machine_as_test(seed(0)(tried), settings=HUNT)
    finally:
        place.weaken(right)
    assert not isinstance(caught.value, StoreUnavailable), "it did not answer"
