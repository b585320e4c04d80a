"""A backend of Django's Tasks (Django 6, or the package django-tasks): each task is a job, enqueued in the transaction of
the caller.

    TASKS = {"default": {"BACKEND": "brooq.contrib.django.tasks.BrooqBackend", "OPTIONS": {"max_attempts": 3}}}

A queue name is a topic: `default` is `task.default`. A task that raises has failed for good, as the Tasks of Django have
it, unless `max_attempts` allows more. It is run at least once: see the guide on idempotence.
"""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.module_loading import import_string

try:
    from django import tasks
    from django.tasks import signals
    from django.tasks.backends import base
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
except ImportError:  # before Django 6
    import django_tasks as tasks
    from django_tasks import signals
    from django_tasks.backends import base
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist

from brooq.contrib.django.kind import with_connections
from brooq.contrib.django.producer import enqueue, find
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import ConfigError, TopicError
from brooq.vocabulary.job import Job, JobRecord, State, Topic
from brooq.vocabulary.kind import KindOptions
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import MustGiveUp

OPTIONS = ("max_attempts", "attempt_timeout", "max_execution_timeout", "backoff_base", "backoff_max", "isolation",
           "max_memory", "recycle_jobs", "recycle_memory", "quarantine_after")  # fmt: skip
"""Those of KindOptions that make sense for a queue of many tasks."""

STATUSES = {
    State.PENDING: TaskResultStatus.READY,
    State.FAILED: TaskResultStatus.READY,  # it waits for its next attempt
    State.PROCESSING: TaskResultStatus.RUNNING,
    State.DONE: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELED: TaskResultStatus.FAILED,
}


class BrooqBackend(base.BaseTaskBackend):
    """The backend. Priorities of Django (-100 to 100, higher first) become those of brooq (9 to 0)."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Raises ConfigError for an option that there is not."""
        super().__init__(alias, params)
        unknown = [name for name in self.options if name not in OPTIONS]
        if unknown:
            known = ", ".join(OPTIONS)
            raise ConfigError([text("contrib.task_option", backend=alias, name=name, known=known) for name in unknown])

    @property
    def kind_options(self) -> KindOptions:
        """How its tasks are run."""
        return KindOptions(**({"max_attempts": 1, "keep_result": True} | self.options))

    def validate_task(self, task: Any) -> None:
        """Refuse what could not be a job."""
        super().validate_task(task)
        topic_of(task.queue_name)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue the task: with the caller's transaction where there is one."""
        self.validate_task(task)
        payload = {"task": task.module_path, "args": list(args), "kwargs": dict(kwargs), "backend": self.alias}
        run_after: datetime | None = task.run_after
        if run_after is not None and timezone.is_naive(run_after):
            run_after = timezone.make_aware(run_after)
        job = Job(topic_of(task.queue_name), payload, available_at=run_after, priority=_priority(task.priority))
        result = _result(
            task, str(job.id), TaskResultStatus.READY, payload, enqueued_at=timezone.now()
        )  # made before it is enqueued, since it refuses arguments that are no JSON
        enqueue(job)
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """What the row says now."""
        try:
            record = find(UUID(result_id))
        except ValueError:
            record = None
        if record is None or not isinstance(record.payload, dict) or "task" not in record.payload:
            raise TaskResultDoesNotExist(result_id)
        try:
            return of_record(record)
        except MustGiveUp as error:
            raise TaskResultDoesNotExist(str(error)) from None


def topic_of(queue_name: str) -> Topic:
    """The topic of a queue of tasks. Raises InvalidTask for a name that cannot be one."""
    name = f"task.{queue_name}"
    try:
        return Topic(name)
    except TopicError:
        raise InvalidTask(text("contrib.task_queue", queue=repr(queue_name), topic=name)) from None


def of_record(record: JobRecord) -> Any:
    """A row as a TaskResult. `attempts` is the number of names in `worker_ids`; errors are those that the row still has."""
    task = _task(record.payload["task"], record.topic.partition(".")[2], record.payload["backend"])
    ended = record.updated_at if record.state.terminal else None
    workers = [failure.worker for failure in record.failures]
    if record.state in (State.PROCESSING, State.DONE) and record.locked_by:
        workers.append(record.locked_by)
    result = _result(
        task,
        str(record.id),
        STATUSES[record.state],
        record.payload,
        enqueued_at=record.created_at,
        started_at=record.failures[0].at if record.failures else record.updated_at if record.attempts else None,
        finished_at=ended,
        last_attempted_at=record.updated_at if record.attempts else None,
        errors=[TaskError(exception_class_path=_path(each.error), traceback=each.error) for each in record.failures],
        worker_ids=workers,
    )
    object.__setattr__(result, "_return_value", record.result)
    return result


def register_tasks(queue: Queue) -> None:
    """Kinds for every queue of every backend that is ours. Raises ConfigError."""
    for alias in tasks.task_backends.settings:
        backend = tasks.task_backends[alias]
        if isinstance(backend, BrooqBackend):
            for name in sorted(backend.queues) or ["default"]:
                topic = topic_of(name)
                if topic not in queue.kinds:
                    queue.register_kind(topic, run_task, backend.kind_options)


@with_connections
def run_task(claim: Claim) -> Any:
    """The handler of all tasks, in a thread: those that are coroutine functions get an event loop there, as Django's own
    `Task.call` does it."""
    task, result, arguments = _begun(claim)
    return _ended(result, task.call(*arguments, **claim.payload["kwargs"]))


def _begun(claim: Claim) -> tuple[Any, Any, list[Any]]:
    """The task, its result so far, and its arguments, the context among them where it takes one."""
    task = _task(claim.payload["task"], claim.topic.partition(".")[2], claim.payload["backend"])
    now = timezone.now()
    workers = [claim.lease.owner] * claim.attempt
    result = _result(
        task,
        str(claim.id),
        TaskResultStatus.RUNNING,
        claim.payload,
        started_at=now,
        last_attempted_at=now,
        worker_ids=workers,
    )
    signals.task_started.send(BrooqBackend, task_result=result)
    context = [TaskContext(task_result=result)] if task.takes_context else []
    return task, result, [*context, *claim.payload["args"]]


def _ended(result: Any, value: Any) -> Any:
    """Tell that it has succeeded: as far as this process knows, before its outcome is written."""
    object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "_return_value", value)
    signals.task_finished.send(BrooqBackend, task_result=result)
    return value


def _task(path: str, queue_name: str, backend: str) -> Any:
    """The task of a path. Raises MustGiveUp for one that is no more: no further attempt can help."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise MustGiveUp(text("contrib.task_unknown", task=path, reason=str(error))) from None
    if isinstance(found, Task):
        return found.using(queue_name=queue_name, backend=backend)
    return Task(func=found, queue_name=queue_name, backend=backend)


def _result(task: Any, id: str, status: Any, payload: dict[str, Any], **more: Any) -> Any:
    absent = {"enqueued_at": None, "started_at": None, "finished_at": None, "last_attempted_at": None}
    lists: dict[str, Any] = {"errors": [], "worker_ids": []}
    told = {"args": payload["args"], "kwargs": payload["kwargs"], "backend": payload["backend"]}
    return TaskResult(task=task, id=id, status=status, **(absent | lists | told | more))


def _priority(priority: int) -> int:
    """-100…100, higher first, as 9…0."""
    return round((100 - priority) * 9 / 200)


def _path(reason: str) -> str:
    """The class that the text of a failure begins with; its module is known for Python's own only."""
    name = reason.partition(":")[0]
    return f"builtins.{name}" if hasattr(builtins, name) else name
