"""The statements of the adapter: one static file each, in `queries/`, with the schema's name put in once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from psycopg import sql

from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text

PLACE = '"brooq".'
"""How the files write the schema: they are valid SQL for a schema of that name."""

MAX_IDENTIFIER_BYTES = 63


@dataclass(frozen=True, slots=True)
class Statements:
    """Every statement of the adapter for one schema; the field `claim` is the text of `queries/claim.sql`."""

    announce: str
    assert_held: str
    board_change: str
    board_dead: str
    board_done: str
    board_group: str
    board_held: str
    board_newest: str
    board_scheduled: str
    board_schedules: str
    board_unsuccessful: str
    board_waiting: str
    cancel: str
    census: str
    claim_limited: str
    claim_topic: str
    claims_under_way: str
    dead: str
    dead_group: str
    declare: str
    ended: str
    enqueue: str
    enqueue_keyed: str
    enqueue_new: str
    enqueue_one: str
    enqueue_one_new: str
    examine_connections: str
    examine_horizon: str
    examine_indexes: str
    examine_jobs: str
    examine_place: str
    examine_rights: str
    examine_server: str
    examine_table: str
    examine_topics: str
    exchange: str
    existing: str
    explain: str
    fates: str
    find: str
    fire: str
    hold_schedule: str
    in_order: str
    limit: str
    list: str
    list_dense: str
    list_few: str
    list_key: str
    list_reach: str
    lock_topic: str
    operator_cancel: str
    operator_hold: str
    operator_retry: str
    operator_run: str
    operator_schedule: str
    pace: str
    pause: str
    progress: str
    prune: str
    reap: str
    renew: str
    resume: str
    retire: str
    sample: str
    samples: str
    schedule: str
    schedules: str
    server: str
    settle: str
    topics: str
    trail: str
    unlimit: str
    unschedule: str
    version: str
    wait: str
    wait_no_more: str
    withdraw: str
    workers: str


@cache
def statements(schema: str) -> Statements:
    """The statements for a schema. Raises ConfigError for a name that PostgreSQL cannot hold."""
    size = len(schema.encode("utf-8", "replace"))
    if not schema or size > MAX_IDENTIFIER_BYTES or "\0" in schema:
        raise ConfigError([text("postgres.schema_name", schema=repr(schema), limit=MAX_IDENTIFIER_BYTES)])
    place = quoted(schema) + "."
    # Inside a string literal ('"brooq".job'::regclass) an apostrophe of the name has to be doubled.
    literal = place.replace("'", "''")
    folder = files("brooq.postgres") / "queries"
    texts = {}
    for each in fields(Statements):
        source = (folder / f"{each.name}.sql").read_text(encoding="utf-8")
        texts[each.name] = source.replace(f"'{PLACE}", f"'{literal}").replace(PLACE, place)
    return Statements(**texts)


def quoted(identifier: str) -> str:
    """An identifier as SQL writes it."""
    return sql.Identifier(identifier).as_string()
