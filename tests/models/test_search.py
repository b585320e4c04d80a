"""The lease protocol, searched exhaustively: the fence by claim_seq has no violation, every weaker rule has one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.models.__main__ import QUICK
from tests.models.life import Bounds
from tests.models.protocol import Protocol
from tests.models.search import search
from tests.models.variant import HEARING, PLANTED, AttemptGuard, OwnerGuard, Planted

CODE = """
import sys
from tests.models import __main__ as command
from tests.models.variant import *
command.PLANTED[:] = [Planted(HastyReaper, "another violation", 1, Bounds(workers=1, claims=1))]
command.QUICK = command.LARGE = ()
sys.exit(command.main())
"""
ROOT = Path(__file__).parent.parent.parent


@pytest.mark.timeout(300)
def test_no_state_that_can_be_reached_breaks_a_promise() -> None:
    """Invariants G4.1, G4.2, G4.3, G4.6, G4.7, G5."""
    states = 0
    for bounds in QUICK:
        found = search(Protocol(), bounds)
        assert not found.violation, str(found)
        states += found.states
    assert states >= 100_000


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: f"{each.rules.__name__}-{each.steps}")
def test_a_planted_bug_has_a_shortest_trace(planted: Planted) -> None:
    found = search(planted.rules(), planted.bounds)
    assert (found.violation, len(found.trace)) == (planted.violation, planted.steps), str(found)


def test_a_worker_that_claims_its_job_again_passes_the_guard_by_owner() -> None:
    assert str(search(OwnerGuard(), HEARING)).splitlines()[1:] == [
        "  1. job 1: claim by A",
        "  2. job 1: the lease expires",
        "  3. job 1: reap",
        "  4. job 1: claim by A",
        "  5. job 1: done by A, claim 1",
    ]


def test_the_guard_by_attempt_holds_while_attempts_only_grow() -> None:
    """Why attempts look like a fence: until an operator resets them, or an outcome that gives one back is sent twice."""
    assert search(AttemptGuard(), HEARING._replace(resets=0)).violation is None
    assert "an operator resets its attempts" in str(search(AttemptGuard(), HEARING))


def test_a_search_visits_every_state_that_its_bounds_allow() -> None:
    """Without a claim, counted by hand: waiting, canceled, deleted; each with its attempts reset before, and without."""
    found = search(Protocol(), Bounds(workers=1, claims=0))
    assert (found.states, found.transitions, found.violation) == (6, 5, None)


def test_a_search_that_finds_a_bug_tells_the_trace_on_the_command_line() -> None:
    answer = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 1, answer.stderr
    limits, *trace = answer.stdout.splitlines()
    assert limits.startswith(
        "HastyReaper (jobs 1, workers 1, claims 1, resets 1, lost True, fences False, limit None): "
        "19 states, 19 transitions: "
    )
    assert trace == ["  1. job 1: claim by A", "  2. job 1: reap"]
