"""How long a job of a killed process was out of circulation."""

from __future__ import annotations

import json
from pathlib import Path

from brooq.postgres.audit.history import History, moment


def recoveries(dsn: str, faults: Path) -> list[float]:
    """For every job that a killed process held: the seconds from the kill until it could be claimed again."""
    killed: dict[str, float] = {}
    for text in faults.read_text().splitlines():
        line = json.loads(text)
        if line["kind"] == "kill":
            killed[str(line["target"])] = line["at"]
    found = []
    with History.open(dsn) as history:
        for _, lines in history.jobs():
            for line in lines:
                if line.op == "UPDATE" and line.old_state == "processing" and line.expired == "1":
                    pid = str(line.old_locked_by).split(":")[1]
                    if pid in killed:
                        found.append(moment(line.at).timestamp() - killed[pid])
    return found
