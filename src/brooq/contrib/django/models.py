"""The table of jobs as a model for reading, by the admin page above all. brooq's statements alone write to it."""

from __future__ import annotations

from django.db import models

from brooq.contrib.django.configuration import configuration
from brooq.postgres.statement import quoted
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.job import State


def table() -> str:
    """The table's name for Django, which knows no schemas: a name with quotes is left as it is, and goes into statements
    in which a percent sign is a placeholder."""
    try:
        schema = configuration().schema
    except ConfigError:
        schema = "public"  # the checks tell what is wrong
    return "job" if schema == "public" else f'{quoted(schema)}."job"'.replace("%", "%%")


class Job(models.Model):
    """A row of the table of jobs."""

    id = models.UUIDField(primary_key=True)
    topic = models.TextField()
    payload = models.JSONField(null=True)
    state = models.TextField(choices=[(str(state), str(state)) for state in State])
    priority = models.SmallIntegerField()
    attempts = models.IntegerField()
    max_attempts = models.IntegerField(null=True)
    expired_leases = models.IntegerField()
    idempotency_key = models.TextField(null=True)
    available_at = models.DateTimeField()
    locked_by = models.TextField(null=True)
    locked_until = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        """Django reads, and makes nothing."""

        managed = False
        db_table = table()
        default_permissions = ("view",)
        permissions = (("cancel_job", "Can cancel jobs"), ("retry_job", "Can run jobs again"))

    def __str__(self) -> str:
        """What it is, without its payload."""
        return f"{self.topic} {self.id}"
