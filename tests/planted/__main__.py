"""`python -m tests.planted`: puts every planted bug on trial and prints the score."""

from __future__ import annotations

import asyncio
import logging
import sys

from tests.database import server
from tests.planted.trial import BUGS, trial


def main() -> int:
    """Exit code 1 when a bug was not seen, or an original was not clean."""
    logging.disable()
    caught = 0
    with server("planted") as found:
        for bug in BUGS:
            original, planted = asyncio.run(trial(bug, found))
            clean, seen = not original, {violation.promise for violation in planted}
            well = clean and bool(seen & set(bug.promises))
            caught += well
            line = f"{'caught' if well else 'MISSED'}  {bug.name}  by {', '.join(sorted(seen)) or 'nothing'}"
            sys.stdout.write(line + ("" if clean else "  (the original is not clean)") + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{caught} of {len(BUGS)} planted bugs caught\n")
    return int(caught < len(BUGS))


if __name__ == "__main__":
    sys.exit(main())
