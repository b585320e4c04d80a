"""With which environment the programs of PostgreSQL run."""

from __future__ import annotations

import os

SECRET = ("DATABASE_URL", "HTTP_TOKEN", "HTTP_READ_TOKEN", "CREDENTIALS_DIRECTORY")
"""What the environment may hold or name of secrets: nothing that a program of PostgreSQL needs to know."""


def environment() -> dict[str, str]:
    """Ours without libpq's variables and without secrets, and with English texts: some are read by us."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG") and key not in SECRET}
    return kept | {"LC_ALL": "C"}
