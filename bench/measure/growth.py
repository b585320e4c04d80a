"""What a table that has grown does to a system: rows written by SQL, kept as a template, copied for every measurement."""

from __future__ import annotations

from bench.stage import Stage
from bench.systems import BROOQ, GRAPHILE, PGBOSS, PGQUEUER, PROCRASTINATE, RAW, System

# Rows of the future first, then the finished ones: both older than what is drained afterwards.
_BROOQ_GROWN = """
insert into job (topic, payload, available_at)
    select 'bench', '{{"note": "future"}}', now() + interval '1 day' from generate_series(1, {future});
insert into job (topic, payload, state, attempts, claim_seq, available_at, created_at, updated_at)
    select 'bench', '{{"note": "done"}}', 'done', 1, 1, now() - interval '1 hour', now() - interval '1 hour',
           now() - interval '1 hour' + number * interval '1 millisecond'
    from generate_series(1, {terminal}) as number
"""
# awa, Absurd, Chancy and DBOS have none: not known well enough for their rows to be true.
GROWN: dict[System, str] = {
    BROOQ: _BROOQ_GROWN,
    RAW: _BROOQ_GROWN,
    GRAPHILE: """
        insert into graphile_worker._private_tasks (identifier) values ('bench') on conflict do nothing;
        insert into graphile_worker._private_jobs (task_id, payload, run_at)
            select id, '{{"note": "future"}}', now() + interval '1 day'
            from graphile_worker._private_tasks, generate_series(1, {future}) where identifier = 'bench'
    """,  # it keeps no finished rows
    PGQUEUER: """
        insert into pgqueuer (priority, entrypoint, payload, status, execute_after)
            select 0, 'bench', '\\x7b7d', 'queued', now() + interval '1 day' from generate_series(1, {future});
        insert into pgqueuer_log (job_id, status, priority, entrypoint)
            select -number, 'successful', 0, 'bench' from generate_series(1, {terminal}) as number
    """,
    PGBOSS: """
        insert into pgboss.job (name, data, start_after)
            select 'bench', '{{"note": "future"}}', now() + interval '1 day' from generate_series(1, {future});
        insert into pgboss.job (name, data, state, created_on, started_on, completed_on)
            select 'bench', '{{"note": "done"}}', 'completed', now() - interval '1 hour', now() - interval '1 hour',
                   now() - interval '1 hour'
            from generate_series(1, {terminal})
    """,
    PROCRASTINATE: """
        set session_replication_role = replica;
        insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at)
            select 'bench', 'bench', '{{"note": "future"}}', now() + interval '1 day' from generate_series(1, {future});
        insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
            select 'bench', 'bench', '{{"note": "done"}}', 'succeeded', 1 from generate_series(1, {terminal})
    """,
}

FOREIGN = """
insert into job (topic, payload)
    select 'foreign', '{{"note": "foreign"}}' from generate_series(1, {terminal})
"""


def grown(stage: Stage, system: System, state: str, terminal: int, future: int) -> str:
    """Make the state unless this run has made it; its name."""
    name = f"{state}_{terminal}"
    if not stage.knows(system, name):
        stage.fresh(system)
        statement = FOREIGN if state == "foreign" else GROWN[system]
        stage.place.sql(statement.format(terminal=terminal, future=future), system.database)
        stage.keep(system, name)
    return name
