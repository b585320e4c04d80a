"""The engine under virtual time and injected faults: 2,000 seeds, and proof that they would find a bug."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.mutant import MUTANTS, Mutant
from tests.simulation.world import simulate

SEEDS = 2000
CHUNK = 100
FIND_WITHIN = 150
HERE = Path(__file__).parent.parent


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_no_promise_is_broken(start: int) -> None:
    for seed in range(start, start + CHUNK):
        violations = simulate(seed).violations
        assert not violations, f"python -m tests.simulation --seed {seed}\n" + "\n".join(violations)


def test_the_same_seed_is_the_same_history_in_every_process() -> None:
    seeds = (3, 11, 154)
    here = [simulate(seed).digest() for seed in seeds]
    assert here == [simulate(seed).digest() for seed in seeds]
    code = f"from tests.simulation.world import simulate; print(*[simulate(seed).digest() for seed in {seeds}])"
    for salt in ("1", "2"):
        answer = subprocess.run(
            [sys.executable, "-c", code],
            cwd=HERE, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert answer.stdout.split() == here


def test_seeds_differ() -> None:
    assert len({simulate(seed).digest() for seed in range(10)}) == 10


def test_the_seeds_reach_what_they_are_for() -> None:
    verbs, states, kinds = set(), set(), set()
    for seed in range(20):
        world = simulate(seed)
        verbs |= {change.verb for change in world.changes}
        states |= {change.new.state.value for change in world.changes if change.new}
        kinds |= {type(run.claim.interruption).__name__ for run in world.runs.values()}
    assert verbs >= {"exchange", "commit", "renew", "reap", "cancel"}
    assert states == {"pending", "processing", "failed", "done", "dead", "canceled"}
    assert kinds >= {"NoneType", "AttemptTimeout", "MaxExecutionExceeded", "LeaseLost", "ShuttingDown"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    for seed in range(FIND_WITHIN):
        with mutant():
            if simulate(seed).violations:
                return
    pytest.fail(f"{FIND_WITHIN} seeds did not find {mutant.__name__}")


def test_the_command_line_tells_how_to_replay_a_failing_seed() -> None:
    code = (
        "import sys; from tests.simulation import __main__ as command; from tests.simulation.mutant import *\n"
        "with reaper_bumps_attempts(): sys.exit(command.main())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, "--seeds", "50"], cwd=HERE, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1, answer.stderr
    assert answer.stdout.splitlines()[-1].startswith("replay: python -m tests.simulation --seed ")


def test_the_command_line_runs_seeds_with_progress() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seeds", "5", "--start", "7"],
        cwd=HERE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "5 of 5 seeds" in answer.stdout
