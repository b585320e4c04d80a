"""What is done to a system, and when: made from a seed alone, so that the same seed is the same schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from brooq import Limits

LEASE = 2.0
REAPER = 0.5
PROCESSES = 4
SLOTS = 8
TOPICS = ("fast", "medium", "long")
LIMITS = {"medium": Limits(max_running=10, max_running_per_key=3)}
"""What is limited in every run."""
TIGHT = {"fast": Limits(max_running=12, max_running_per_key=2), "medium": Limits(ordered=True)}
"""What is limited in the run that is about limits."""
KEYS = 16
LASTING = (0.4 * LEASE, 0.8 * LEASE)
"""How many seconds jobs take in the run that is about zombies."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: how many seconds after the start, on whom, for how long."""

    at: float
    kind: str
    target: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Order:
    """One job that a producer sends. `keyed` jobs are sent by the other producer too."""

    topic: str
    payload: dict[str, Any]
    keyed: bool
    canceled: bool
    line: str
    """Its concurrency key."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload and the faults it meets."""

    name: str
    faults: str
    """Their numbers in the catalogue."""
    jobs: int
    kinds: Mapping[str, int]
    """How often each kind of fault comes."""
    every: float = 0.3
    """The mean time between two faults, in seconds."""
    seconds: tuple[float, float] = (0.3, 1.5)
    """How long a fault lasts that lasts."""
    proxied: bool = False
    pooled: bool = False
    tmpfs: bool = False
    """The server's data are in a small file system of their own, which needs root."""
    standby: bool = False
    """A standby follows the server, and every acknowledged commit waits for it."""
    limited: bool = False
    """Tight limits: most jobs wait for others."""
    slots: int = SLOTS
    """How many jobs each process has in hand at most."""
    zombies: int = 0
    """How many writes must at least be tried for claims that are over by then; 0: nobody counts."""
    skew: float = 0.0
    """By how many seconds the wall clocks of the processes are wrong: half of them are ahead, half behind."""
    named: bool = False
    """The processes know their server by a name, which may be one that nobody knows for a while."""
    freezing: int = 0
    """How many jobs stop their whole process inside of `on_succeeded`."""
    settings: Mapping[str, str | int | bool] = field(default_factory=dict)


def steps(scenario: Scenario, seed: int) -> list[Step]:
    """The faults in their order."""
    random = Random(f"{scenario.name} {seed} faults")
    kinds = [kind for kind, count in scenario.kinds.items() for _ in range(count)]
    random.shuffle(kinds)
    at, made = 0.5, []
    for kind in kinds:
        made.append(Step(round(at, 3), kind, random.randrange(1000), round(random.uniform(*scenario.seconds), 3)))
        at += random.uniform(0.5, 1.5) * scenario.every
    return made


def orders(scenario: Scenario, seed: int) -> list[Order]:
    """The standard workload: topics of three speeds, and every way to end."""
    random = Random(f"{scenario.name} {seed} jobs")
    made = [_order(random, number, freeze=number < scenario.freezing) for number in range(scenario.jobs)]
    return [_lasting(random, each) for each in made] if scenario.zombies else made


def _lasting(random: Random, order: Order) -> Order:
    """Jobs that last, so that many are in hand at one time. A few ask at the end whether their claim still holds, and do
    not listen when they are canceled meanwhile."""
    wait = round(random.uniform(*LASTING), 4)
    return replace(
        order,
        topic="fast" if order.topic == "long" else order.topic,
        payload={**order.payload, "wait": wait, "ask": random.random() < 0.15},
    )


def _order(random: Random, number: int, *, freeze: bool) -> Order:
    (topic,) = random.choices(TOPICS, (85, 14, 1))
    wait = {"fast": random.uniform(0, 0.02), "medium": random.uniform(0.1, 0.5), "long": 2.5 * LEASE}[topic]
    ways = {
        "fail once": 10,
        "fail": 5,
        "cancel": 2,
        "delay": 2,
        "preserve": 2,
        "chain": 10,
        "effect": 10,
        "succeed": 59,
    }
    (way,) = random.choices(list(ways), list(ways.values()))
    payload = {"number": number, "do": "freeze" if freeze else way, "wait": round(wait, 4)}
    return Order(topic, payload, random.random() < 0.2, random.random() < 0.01, f"line {number % KEYS}")
