"""brooq: a job queue that lives entirely in PostgreSQL. Importing it needs no driver and starts nothing."""

from brooq.engine.bound import JobFilter
from brooq.engine.config import Config
from brooq.engine.health import Health
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim, Handler, Lease, OnSucceeded, current_claim
from brooq.vocabulary.codec import Codec
from brooq.vocabulary.error import (
    AvailableAtError,
    BrooqError,
    ConfigError,
    IdempotencyKeyError,
    JobError,
    JobNotFound,
    OutcomeUnknown,
    PayloadError,
    ProcessDied,
    Quarantined,
    SchemaError,
    StoreBusy,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    TopicError,
    TxError,
)
from brooq.vocabulary.event import Event, JobCanceled, JobClaimed, JobDead, JobDone, JobFailed, JobRequeued
from brooq.vocabulary.job import Cancellation, Enqueued, Failure, Job, JobRecord, Progress, State, Topic
from brooq.vocabulary.kind import KindOptions
from brooq.vocabulary.schedule import Missed, Schedule, ScheduleRecord
from brooq.vocabulary.signal import (
    AttemptTimeout,
    Interruption,
    LeaseLost,
    MaxExecutionExceeded,
    MustCancel,
    MustDelay,
    MustGiveUp,
    MustPreserveAttempt,
    ShuttingDown,
    Signal,
    delay_of,
)
from brooq.vocabulary.steering import Limits, TopicRecord
from brooq.vocabulary.tx import Tx
from brooq.vocabulary.version import VERSION

__version__ = VERSION

__all__ = [
    "AttemptTimeout",
    "AvailableAtError",
    "BrooqError",
    "Cancellation",
    "Claim",
    "Codec",
    "Config",
    "ConfigError",
    "Enqueued",
    "Event",
    "Failure",
    "Handler",
    "Health",
    "IdempotencyKeyError",
    "Interruption",
    "Job",
    "JobCanceled",
    "JobClaimed",
    "JobDead",
    "JobDone",
    "JobError",
    "JobFailed",
    "JobFilter",
    "JobNotFound",
    "JobRecord",
    "JobRequeued",
    "KindOptions",
    "Lease",
    "LeaseLost",
    "Limits",
    "MaxExecutionExceeded",
    "Missed",
    "MustCancel",
    "MustDelay",
    "MustGiveUp",
    "MustPreserveAttempt",
    "OnSucceeded",
    "OutcomeUnknown",
    "PayloadError",
    "ProcessDied",
    "Progress",
    "Quarantined",
    "Queue",
    "Schedule",
    "ScheduleRecord",
    "SchemaError",
    "ShuttingDown",
    "Signal",
    "State",
    "StoreBusy",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "Topic",
    "TopicError",
    "TopicRecord",
    "Tx",
    "TxError",
    "__version__",
    "current_claim",
    "delay_of",
]
