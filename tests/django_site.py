"""A Django site for tests: the settings of this process, and the database of one test."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict


def use(dsn: str) -> None:
    """Make this the default database of the process; Django is set up at the first call."""
    from django.conf import settings

    place: dict[str, Any] = dict(conninfo_to_dict(dsn))
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": place["dbname"],
        "USER": place.get("user", ""),
        "PASSWORD": place.get("password", ""),
        "HOST": place.get("host", ""),
        "PORT": place.get("port", ""),
    }
    if not settings.configured:
        settings.configure(DATABASES={"default": database}, USE_TZ=True, SECRET_KEY="for tests")
        import django

        django.setup()
    from django.db import connections

    connections["default"].close()
    del connections["default"]
    connections.databases["default"] = connections.configure_settings({"default": database})["default"]
