"""The errors of brooq: one tree under BrooqError.

BrooqError
├── ConfigError              settings or options are wrong; lists every problem          (a ValueError)
├── JobError                 a job that cannot be enqueued as it is                       (a ValueError)
│   ├── TopicError           the grammar of topics refuses it
│   ├── IdempotencyKeyError  too long, or with a character that PostgreSQL refuses
│   ├── AvailableAtError     a naive datetime, or one outside timestamptz
│   └── PayloadError         not JSON, or too large; names the place
├── JobNotFound              there is no such job: it never was, or retention has deleted it   (a LookupError)
├── TxError                  a transaction that cannot carry a job
├── SchemaError              the schema in the database is missing, older or newer
├── StoreError               the store did not do what was asked
│   ├── StoreUnavailable     no answer, or a passing refusal: the same call may work later
│   │   └── StoreBusy        somebody kept a row locked for longer than the store waits
│   ├── OutcomeUnknown       the answer to a commit was lost: it may have happened
│   └── StoreRefused         the data itself was refused: repeating cannot help
├── ProcessDied              the child process of a handler died, or was killed
├── Quarantined              a job's leases ran out too often, without a word from its workers
├── Signal                   what a handler raises to steer its job, see `signal`
└── Interruption             why a handler was interrupted, see `signal`
"""

from __future__ import annotations


class BrooqError(Exception):
    """The root of every error that brooq raises on purpose."""


class ConfigError(BrooqError, ValueError):
    """Settings or options are wrong. `problems` lists every one of them, each naming its setting."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class JobError(BrooqError, ValueError):
    """A job that cannot be enqueued as it is. Raised before any SQL: the caller's transaction stays usable."""


class TopicError(JobError):
    """The topic does not fit the grammar (requirement V4)."""


class IdempotencyKeyError(JobError):
    """The idempotency key is over 1,024 bytes of UTF-8, or holds NUL or a lone surrogate (requirement E4)."""


class AvailableAtError(JobError):
    """`available_at` is naive, or outside what timestamptz holds (requirement E7)."""


class PayloadError(JobError):
    """The payload cannot be stored (requirement E6). `place` is a path such as `$.items[3].price`."""

    def __init__(self, message: str, place: str = "$") -> None:
        super().__init__(message)
        self.place = place


class JobNotFound(BrooqError, LookupError):
    """There is no such job: it never was, or retention has deleted it."""


class TxError(BrooqError):
    """The transaction given is not one of this store, has ended, or was never begun."""


class SchemaError(BrooqError):
    """The schema in the database is missing, older or newer than this version of brooq needs (requirement M2)."""


class StoreError(BrooqError):
    """The store did not do what was asked."""


class StoreUnavailable(StoreError):
    """The store gave no answer, or refused for the moment; the same call may work later."""


class StoreBusy(StoreUnavailable):
    """Somebody kept a row locked for longer than the store waits."""


class OutcomeUnknown(StoreError):
    """The connection was lost while the answer to a commit was on its way: it may have happened (requirement G6)."""


class StoreRefused(StoreError):
    """The store refused the data itself (a value or a constraint); repeating the call cannot help."""


class ProcessDied(BrooqError):
    """The child process of a handler died while it ran, or was killed: the text says how, with how much memory, and
    where the handler was (requirement I6). Nobody catches it: it is the reason of a failed attempt."""


class Quarantined(BrooqError):
    """The leases of a job ran out as often as its kind's `quarantine_after` allows, each time without a word from the
    worker that held it: it is `dead` and not tried again (requirement I7). Nobody catches it."""
