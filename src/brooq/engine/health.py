"""Whether a queue is well."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Health:
    """`loops` says of each of the engine's loops whether it can run; `slots_hung`: every slot is taken by a handler that
    was interrupted and does not exit."""

    running: bool
    loops: dict[str, bool]
    slots_hung: bool

    @property
    def well(self) -> bool:
        """Everything runs and there is a slot to work with."""
        return self.running and all(self.loops.values()) and not self.slots_hung
