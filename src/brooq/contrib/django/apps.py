"""The app, for INSTALLED_APPS."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks

from brooq.contrib.django.configuration import configuration
from brooq.vocabulary.error import ConfigError


class BrooqApp(AppConfig):
    """`brooq.contrib.django`."""

    name = "brooq.contrib.django"
    label = "brooq"
    verbose_name = "brooq"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Check the settings with everything else that Django checks."""
        checks.register(_check_settings)


def _check_settings(**_: Any) -> list[checks.CheckMessage]:
    try:
        configuration()
    except ConfigError as error:
        return [checks.Error(problem, id="brooq.E001") for problem in error.problems]
    return []
