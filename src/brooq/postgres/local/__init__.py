"""A PostgreSQL of one's own, for newcomers, for tests and for the demo."""

from brooq.postgres.local.binaries import LocalPostgresError
from brooq.postgres.local.server import LocalPostgres

__all__ = ["LocalPostgres", "LocalPostgresError"]
