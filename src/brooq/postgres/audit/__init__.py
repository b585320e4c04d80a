"""The audit, opt-in: a trigger writes down every change of every job, in a schema of its own; `brooq verify` reads it."""

from brooq.postgres.audit.history import Change, History
from brooq.postgres.audit.installation import install, schema_for, uninstall

__all__ = ["Change", "History", "install", "schema_for", "uninstall"]
