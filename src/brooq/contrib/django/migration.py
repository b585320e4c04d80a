"""Django's migrations, made from the shipped files: the same SQL, the same records, in the schema of the settings."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from brooq.contrib.django.configuration import configuration
from brooq.postgres import migrate


def migration(version: int, *more: Any) -> type[migrations.Migration]:
    """The Migration of one file; `more` are operations behind it. Raises ConfigError."""
    steps = migrate.steps(configuration().schema)
    (place,) = [place for place, step in enumerate(steps) if step.version == version]
    step = steps[place]
    return type(
        "Migration",
        (migrations.Migration,),
        {
            "dependencies": [("brooq", module(steps[place - 1]))] if place else [],
            "operations": [migrations.RunSQL(list(step.up), list(step.down)), *more],
            "atomic": step.transactional,
        },
    )


def module(step: migrate.Step) -> str:
    """How the module of a file is called in `migrations`."""
    return f"{step.version:04}_{step.name}"
