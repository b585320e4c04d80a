"""The page that tells what the runs have come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.chaos.doom import POINTS
from tests.chaos.plan import LEASE, PROCESSES, REAPER, SLOTS
from tests.chaos.tries import WRITES
from tests.chaos.world import Result

from brooq.service.verify.ledger import NEEDS
from brooq.service.verify.report import spread
from brooq.vocabulary.message import catalogue

HEAD = """# Reliability

What brooq promises, shown under faults. This page is written by `python -m tests.chaos --report`; `make chaos` runs the
quick tier, `make chaos-full` the full one. Nothing on it is written by hand.

Every run is the same workload on {processes} real worker processes with {slots} slots each, a lease of {lease:g} s and a
reaper every {reaper:g} s: jobs of three speeds that succeed, fail once or always, are delayed, preserve their attempt,
cancel themselves, chain a child, have an effect in the database, or are canceled from outside; a fifth of them has a key
and is sent by two producers. The server does not make durable what is not asked to be. At the end every job has to be at
its end, and `brooq verify` reads the audit, the journal of the handlers and the logs of the producers
([guide](en/guide.md#verifying-a-system)). Faults come by a seeded plan: the same seed is the same schedule.

Tier {tier}, seed {seed}, commit {commit}, PostgreSQL {version}.
"""

ZOMBIES = """A zombie is a worker that was stopped until others had claimed its jobs, and goes on with the ends of many
handlers at once on its hands. Counted is what it then sends for claims that are over: each of these writes has to be
refused.
"""

PROOF = """{score} (`python -m tests.planted`): each is a piece of the real statements or of the
engine replaced, with a schedule that shows it for certain and that the original passes.
"""


def page(results: Sequence[Result], *, tier: str, seed: int, commit: str, version: str, score: str) -> str:
    """The whole page."""
    parts = [HEAD.format(
        processes=PROCESSES, slots=SLOTS, lease=LEASE, reaper=REAPER, tier=tier, seed=seed, commit=commit, version=version,
    )]  # fmt: skip
    parts += ["## Runs\n", _runs(results), "## Promises\n", _promises(results), "## Recovery\n", _recovery(results)]
    parts += [f"Points at which processes kill themselves: {', '.join(POINTS)}.\n"]
    parts += ["## Zombies\n", ZOMBIES, _zombies(results)]
    parts += ["## Can the checker see anything?\n", PROOF.format(score=score)]
    return "\n".join(parts)


def kinds(done: Mapping[str, int]) -> Counter[str]:
    """What was done, all points at which processes died taken together."""
    found: Counter[str] = Counter()
    for kind, count in done.items():
        found["kill at a point" if kind in POINTS else kind] += count
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _runs(results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        done = ", ".join(f"{count} × {kind.replace('_', ' ')}" for kind, count in sorted(kinds(each.done).items()))
        counted = each.inspection.ledger.counted
        rows.append((each.scenario, each.faults, each.jobs, done, each.inspection.changes, counted["zombies"],
                     counted["overlapping_runs"], each.violations, f"{each.rest:.1f} s"))  # fmt: skip
    head = ["run", "fault", "jobs", "done to it", "changes checked", "runs that outlived their lease",
            "overlapping runs", "violations", "at rest after"]  # fmt: skip
    return _table(head, rows)


def _promises(results: Sequence[Result]) -> str:
    texts = catalogue("en")
    rows = [
        (promise, texts[f"verify.{promise.lower()}"],
         sum(each.inspection.ledger.checked[promise] for each in results),
         sum(each.inspection.ledger.broken[promise] for each in results))
        for promise in NEEDS
    ]  # fmt: skip
    return _table(["promise", "meaning", "rows checked", "violations"], rows)


def _zombies(results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        if each.zombies is not None:
            accepted = Counter(line.partition(" of claim")[0] for line in each.zombies.accepted)
            rows += [(each.scenario, write, each.zombies.tried[write], accepted[write]) for write in WRITES]
            rows.append((each.scenario, "all together", each.zombies.count, len(each.zombies.accepted)))
    return _table(["run", "write", "tries", "accepted"], rows)


def _recovery(results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        for name, values, bound in (
            ("from the kill of its process until a job could be claimed again", each.recovery, LEASE + REAPER + 1),
            ("from the end of a lease until the job was put back",
             each.inspection.ledger.measured.get("recovery", []), None),
        ):  # fmt: skip
            if values:
                median, p99, worst = spread(values)
                told = "" if bound is None else f"{bound:g} s"
                rows.append(
                    (each.scenario, name, len(values), f"{median:.2f} s", f"{p99:.2f} s", f"{worst:.2f} s", told)
                )
    return _table(["run", "what", "jobs", "p50", "p99", "longest", "promised p99"], rows)
