"""`python -m tests.simulation --seeds 10000`: many seeds; `--seed 123`: one, with its history."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.world import World, simulate


def main() -> int:
    """Run seeds until one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first one")
    parser.add_argument("--seed", type=int, help="only this one, with its history")
    options = parser.parse_args()
    if options.seed is not None:
        world = simulate(options.seed)
        tell(world)
        return 1 if world.violations else 0
    begun, virtual = time.monotonic(), 0.0
    for count, seed in enumerate(range(options.start, options.start + options.seeds), 1):
        world = simulate(seed)
        virtual += world.loop.time()
        if world.violations:
            out(f"\nseed {seed} fails:")
            for violation in world.violations:
                out(f"  {violation}")
            out(f"replay: python -m tests.simulation --seed {seed}")
            return 1
        if count % 50 == 0 or count == options.seeds:
            rate = count / (time.monotonic() - begun)
            out(f"\r{count} of {options.seeds} seeds, {rate:.0f} a second, {virtual / 3600:.1f} virtual hours", end="")
    out("")
    return 0


def tell(world: World) -> None:
    """The history of a seed."""
    for change in world.changes:
        new = change.new
        job = change.id.int >> 80
        if new is not None:
            do = world.jobs[change.id].payload["do"]
            out(
                f"{change.at:9.3f} {change.verb:8} job {job:3} {do:15} {new.state:10} claim {new.claim_seq} "
                f"attempts {new.attempts} {change.actor.split(':')[0]:4} {new.last_error or ''}"
            )
    out(f"{len(world.changes)} changes, {len(world.runs)} runs, hash {world.digest()}")
    for violation in world.violations:
        out(f"VIOLATION {violation}")


def out(line: str, end: str = "\n") -> None:
    """To standard output, at once."""
    sys.stdout.write(line + end)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
