"""An audit of the table of jobs for the tests: a trigger that writes down every version of every row."""

from __future__ import annotations

from typing import Any

import psycopg
from tests.models.trace import Version

AUDIT = """
create schema audit;
create table audit.version (
    seq bigint generated always as identity, at timestamptz, xid xid8, op text, job_id uuid, old_state text, new_state text,
    claim_seq bigint, attempts int, locked_by text, locked_until timestamptz, available_at timestamptz, actor text
);
create function audit.note() returns trigger language plpgsql as $$
declare
    seen job := case when tg_op = 'DELETE' then old else new end;
begin
    insert into audit.version
        (at, xid, op, job_id, old_state, new_state, claim_seq, attempts, locked_by, locked_until, available_at, actor)
    values (clock_timestamp(), pg_current_xact_id(), tg_op, seen.id, old.state, new.state, seen.claim_seq, seen.attempts,
            seen.locked_by, seen.locked_until, seen.available_at, current_setting('application_name'));
    return null;
end
$$;
create trigger audit after insert or update or delete on job for each row execute function audit.note();
"""
READ = """
select seq, at, xid::text::bigint, op, job_id, old_state, new_state, claim_seq, attempts, locked_by, locked_until,
       available_at, actor
from audit.version order by seq
"""


def record(connection: psycopg.Connection[Any]) -> None:
    """Begin to record."""
    connection.execute(AUDIT)


def recorded(connection: psycopg.Connection[Any]) -> list[Version]:
    """What was recorded so far."""
    return [Version(*row) for row in connection.execute(READ)]
