"""The runs of both tiers."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.doom import POINTS
from tests.chaos.plan import LEASE, Scenario

KILLS = Scenario("kills", "F1", 2000, {"kill": 60}, every=0.25)

QUICK = (
    KILLS,
    Scenario("points", "F2", 800, dict.fromkeys(POINTS, 1), every=0.25, seconds=(8.0, 8.0)),
    Scenario("limits", "F1", 600, {"kill": 12}, every=0.5, limited=True),
    Scenario("pauses", "F3", 300, {"pause": 8}, every=0.6, seconds=(1.1 * LEASE, 1.5 * LEASE)),
    Scenario("zombies", "F3 F36", 600, {"haunt": 3}, every=3.0, seconds=(2 * LEASE, 2 * LEASE), slots=64, zombies=50),
    Scenario("deploys", "F40", 300, {"stop": 8}, every=0.4),
    Scenario("cuts", "F5", 400, {"cut": 15}, every=0.2),
    Scenario("crashes", "F6", 300, {"crash": 2}, every=1.5),
    Scenario("immediate-stops", "F7", 300, {"immediate": 2}, every=1.5, seconds=(0.0, 1.0)),
    Scenario("network", "F8 F9 F10", 300, {"reset": 4, "black_hole": 1, "delay": 1}, every=0.8, proxied=True),
    Scenario("lost-answers", "F11", 400, {"eat": 20}, every=0.15, proxied=True),
    Scenario("frozen-callbacks", "F22", 200, {}, freezing=2),
    Scenario("pooler", "F32", 400, {"kill": 5}, every=0.4, pooled=True),
    Scenario("failover", "F25", 300, {"fail_over": 1}, every=6.0, proxied=True, standby=True),
    Scenario("full", "F20 F27", 300, {"fill": 1, "read_only": 1}, every=1.0, settings={"max_connections": 40}),
    Scenario("slow-changes", "F33", 250, {"doze": 2}, every=1.0, seconds=(1.0, 1.5)),
    Scenario("clocks", "F18", 250, {"kill": 4}, every=0.5, skew=86_400.0),
    Scenario("names", "F31", 250, {"unresolved": 2}, every=2.0, named=True),
    Scenario("starved", "F16", 250, {"starve": 2}, every=1.0),
    Scenario("full-disk", "F13 F14", 300, {"fill_disk": 1}, every=1.0, tmpfs=True,
             settings={"max_wal_size": "32MB", "min_wal_size": "32MB", "shared_buffers": "32MB"}),
)  # fmt: skip

_MORE = {
    "kills": (10_000, {"kill": 500}),
    "points": (9000, dict.fromkeys(POINTS, 25)),
    "limits": (10_000, {"kill": 200}),
    "pauses": (3000, {"pause": 200}),
    "zombies": (7000, {"haunt": 40}),
    "deploys": (3000, {"stop": 200}),
    "cuts": (10_000, {"cut": 300}),
    "crashes": (3000, {"crash": 20}),
    "immediate-stops": (10_000, {"immediate": 30}),
    "network": (5000, {"reset": 100, "black_hole": 10, "delay": 10}),
    "lost-answers": (5000, {"eat": 1000}),
    "frozen-callbacks": (500, {}),
    "pooler": (5000, {"kill": 50}),
    "failover": (6000, {"fail_over": 20}),
    "full": (2000, {"fill": 5, "read_only": 5}),
    "slow-changes": (5000, {"doze": 60}),
    "clocks": (5000, {"kill": 100}),
    "names": (5000, {"unresolved": 40}),
    "starved": (3000, {"starve": 30}),
    "full-disk": (1000, {"fill_disk": 5}),
}
FULL = tuple(
    replace(
        each, jobs=_MORE[each.name][0], kinds=_MORE[each.name][1], freezing=each.freezing * 5, zombies=each.zombies * 10
    )
    for each in QUICK
)
"""The same faults, as many as an hour allows."""
