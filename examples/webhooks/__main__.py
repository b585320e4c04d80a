"""The command: python -m examples.webhooks [--input FILE]. Exit code 0 only if every check holds; 2 for bad input."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import psycopg
from rich.console import Console

from brooq import BrooqError
from brooq.postgres.dsn import mask
from examples.webhooks import checks, findings, report, show
from examples.webhooks.app import GONE
from examples.webhooks.deliveries import SAMPLE, InputError, read
from examples.webhooks.run import RunError, play, stay
from examples.webhooks.stage import Stage, StageError, stage

OK, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


def main() -> int:
    """Answers the exit code."""
    options = _options()
    # SIGTERM as Ctrl-C: whatever was started is ended on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(options)
    except InputError as error:
        return _complain(str(error), WRONG)
    except (StageError, RunError, BrooqError, psycopg.Error) as error:
        return _complain(mask(str(error).strip(), options.database or ""), FAILED)
    except OSError as error:
        return _complain(f"{error.filename or 'the demo'}: {error.strerror or error}", FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted; everything that was started has been ended", INTERRUPTED)


def _run(options: argparse.Namespace) -> int:
    deliveries = read(options.input)
    console = Console(highlight=False)
    megabytes = options.input.stat().st_size / 1e6
    console.print(f"{len(deliveries)} deliveries ({megabytes:.1f} MB) from {options.input}", soft_wrap=True)
    with stage(options.folder.resolve(), options.database, options.seed) as ready:
        console.print(f"PostgreSQL {ready.version}; run in {options.folder}/run", soft_wrap=True)
        if not options.stay:
            console.print(f"dashboard while it runs: {ready.dashboard} (`make dashboard` keeps it)", soft_wrap=True)
        with show.Show(console, len(deliveries)) as shown:
            course = asyncio.run(play(ready, deliveries, shown))
        found = findings.gather(ready, course)
        verdicts = checks.judge(found)
        if options.report is not None:
            report.write(options.report, ready, found, verdicts)
        show.tables(console, found)
        console.print()
        show.verdicts(console, verdicts)
        if options.stay:
            _stay(console, ready)
    return OK if all(verdict.ok for verdict in verdicts) else FAILED


def _stay(console: Console, ready: Stage) -> None:
    def tell() -> None:
        console.print(f"\n{GONE} has a mailbox again: retry what has died, and see it done.")
        console.print(f"dashboard: {ready.dashboard}", soft_wrap=True)
        console.print("Ctrl-C ends it.")
        sys.stdout.flush()

    try:
        asyncio.run(stay(ready, tell))
    except KeyboardInterrupt:
        console.print()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.webhooks",
        description="Webhooks in, mails out, through a mail server that misbehaves and a worker that is killed half-way.",
    )
    parser.add_argument("--input", type=Path, default=SAMPLE, metavar="FILE", help="deliveries, one JSON object a line")
    parser.add_argument("--stay", action="store_true", help="let it run on at the end, to look at its dashboard")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the result as JSON as well")
    parser.add_argument("--folder", type=Path, default=Path(".brooq/demo"), help="for data and logs (%(default)s)")
    parser.add_argument("--database", metavar="DSN", help="an empty database to use instead of a PostgreSQL of our own")
    parser.add_argument("--seed", default="3", help="of the mail server's misdeeds (%(default)s)")
    return parser.parse_args()


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"{message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
