"""How quick this machine is just now, so that a run takes about as long on every machine."""

from __future__ import annotations

from bench.measure.drain import drain
from bench.plan import TOP
from bench.stage import Stage
from bench.systems import RAW

JOBS = 20_000
SLOWEST = 0.02


def speed(stage: Stage) -> float:
    """Raw SQL against TOP: 1 on a machine as quick as that one, at most 2."""
    config = {"driver": "psycopg", "batch": 500, "connections": 2}
    return min(max(drain(stage, RAW, config, JOBS).rate / TOP, SLOWEST), 2.0)
