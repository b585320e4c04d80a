"""The admin page: a list of jobs to look at, and to cancel for whoever may."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from brooq.contrib.django.configuration import configuration
from brooq.contrib.django.models import Job
from brooq.contrib.django.producer import cancel, retry
from brooq.vocabulary.message import text

COUNTED = 1_000


class BoundedPaginator(Paginator):
    """Counts to a thousand: in a table of millions an exact number would cost more than the page."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most so many."""
        return int(self.object_list[:COUNTED].count())


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Jobs, newest first."""

    list_display = ("id", "topic", "state", "priority", "attempts", "available_at", "updated_at", "last_error")
    list_filter = ("state",)
    search_fields = ("topic__exact", "idempotency_key__exact", "id__exact")
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False
    paginator = BoundedPaginator
    actions = ("cancel_jobs", "retry_jobs")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Of the database of the settings."""
        return super().get_queryset(request).using(configuration().database)

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Jobs are enqueued, not added."""
        return False

    def has_change_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Rows are written by brooq alone."""
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Retention deletes."""
        return False

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whoever has `brooq.cancel_job`."""
        return bool(request.user.has_perm("brooq.cancel_job"))

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Whoever has `brooq.retry_job`."""
        return bool(request.user.has_perm("brooq.retry_job"))

    @admin.action(description=text("contrib.admin_cancel"), permissions=["cancel"])
    def cancel_jobs(self, request: HttpRequest, chosen: QuerySet[Job]) -> None:
        """Cancel the chosen jobs, written down with the user's name."""
        actor = request.user.get_username()
        answers = [cancel(job.pk, actor=actor, reason="Django admin") for job in chosen]
        canceled = sum(answer.canceled for answer in answers)
        if canceled:
            self.message_user(request, text("contrib.admin_canceled", count=canceled), messages.SUCCESS)
        if canceled < len(answers):
            late = len(answers) - canceled
            self.message_user(request, text("contrib.admin_too_late", count=late), messages.WARNING)

    @admin.action(description=text("contrib.admin_retry"), permissions=["retry"])
    def retry_jobs(self, request: HttpRequest, chosen: QuerySet[Job]) -> None:
        """Do the chosen jobs once more, as new ones."""
        actor = request.user.get_username()
        answers = [retry(job.pk, actor=actor, reason="Django admin") for job in chosen]
        made = sum(answer.id is not None for answer in answers)
        if made:
            self.message_user(request, text("contrib.admin_retried", count=made), messages.SUCCESS)
        if made < len(answers):
            self.message_user(request, text("contrib.admin_not_ended", count=len(answers) - made), messages.WARNING)
