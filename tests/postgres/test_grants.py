"""Least privilege: what each role may, what it may not, and that the whole system runs with no more (S12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest
from psycopg import errors
from tests.database import Server
from tests.documents import SECURITY, blocks
from tests.postgres.observer import Opened
from tests.postgres.roles import Place, place
from tests.service.brooq_process import inside, worker

from brooq import Claim, Config, Job, MustCancel, MustDelay, Queue, State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold
from brooq.postgres import grants, migrate
from brooq.postgres.grants import Roles
from brooq.vocabulary.error import BrooqError, ConfigError, SchemaError, StoreUnavailable

pytestmark = pytest.mark.security("S12")
Session: TypeAlias = psycopg.Connection[tuple[object, ...]]

STATEMENTS = {
    "insert": "insert into job (topic, payload) values ('t', '1')",
    "insert all of a producer": "insert into job (id, topic, payload, idempotency_key, available_at, priority,"
    " max_attempts, tags, metadata) values (brooq_uuid7(), 't', '1', 'k', now(), 1, 2, '{a}', '{}') returning id",
    "insert a state": "insert into job (topic, state) values ('t', 'dead')",
    "insert attempts": "insert into job (topic, attempts) values ('t', 3)",
    "call the function": "select brooq_enqueue('t', '1', 'key')",
    "read keys": "select id, topic, idempotency_key, state from job",
    "read payloads": "select payload from job",
    "read the rest": "select id, topic, state, priority, attempts, max_attempts, claim_seq, expired_leases,"
    " idempotency_key, available_at, locked_by, locked_until, last_error, failures, tags, metadata, created_at,"
    " updated_at from job",
    "read errors": "select last_error from job",
    "claim": "update job set state = 'processing', attempts = attempts + 1, claim_seq = claim_seq + 1,"
    " locked_by = 'w', locked_until = now(), updated_at = now() where state = 'pending'",
    "lock": "select id from job for no key update skip locked",
    "change a payload": "update job set payload = '2'",
    "change a topic": "update job set topic = 'u'",
    "change a key": "update job set idempotency_key = null",
    "change an id": "update job set id = brooq_uuid7()",
    "change a priority": "update job set priority = 0",
    "change tags": "update job set tags = null",
    "touch": "update job set updated_at = now()",
    "delete": "delete from job where state = 'done'",
    "truncate": "truncate job",
    "read the version": "select max(version) from brooq_migration",
    "forge the version": "insert into brooq_migration (version, name, checksum) values (99, 'x', 'x')",
    "forget the version": "delete from brooq_migration",
    "create a table": "create table mine (a int)",
    "create a function": "create function mine() returns int language sql as 'select 1'",
    "alter the table": "alter table job add column mine int",
    "drop the table": "drop table job",
    "add a trigger": "create trigger mine before update on job for each row execute function"
    " suppress_redundant_updates_trigger()",
    "refer to jobs": "create temporary table mine (id uuid references job)",
    "become the owner": "set role {owner}",
}
ALLOWED = {
    "migrator": set(STATEMENTS) - {"refer to jobs"},
    "producer": {"insert", "insert all of a producer", "call the function", "read keys", "read the version"},
    "worker": {
        "read keys",
        "read payloads",
        "read the rest",
        "read errors",
        "claim",
        "lock",
        "touch",
        "read the version",
    },
    "janitor": {"lock", "touch", "delete", "read the version"},
    "viewer": {"read keys", "read the rest", "read errors", "read the version"},
    "nobody": set[str](),
}


@pytest.fixture(scope="module")
def granted(postgres: Server) -> Iterator[Place]:
    """One place for all statements: every one of them is rolled back."""
    with postgres.database(migrated=False) as dsn, place(dsn) as found:
        found.ask("insert into job (topic) values ('t')")
        yield found


@pytest.fixture(scope="module")
def logins(granted: Place) -> Iterator[dict[str, Session]]:
    """A session a role."""
    options = f"-c search_path={granted.schema}"
    with ExitStack() as stack:
        yield {
            role: stack.enter_context(
                psycopg.connect(granted.login(f"as_{role}", *([] if role == "nobody" else [role])), options=options)
            )
            for role in ALLOWED
        }


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("role", ALLOWED)
def test_a_role_may_what_it_needs_and_nothing_else(
    role: str, statement: str, granted: Place, logins: dict[str, Session]
) -> None:
    connection = logins[role]
    text = STATEMENTS[statement].replace("{owner}", granted.roles.owner).encode()
    try:
        if statement in ALLOWED[role]:
            connection.execute(text)
        elif role == "nobody":
            # Without the schema even its names are not there.
            with pytest.raises((errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedFunction,
                                errors.InvalidSchemaName)):  # fmt: skip
                connection.execute(text)
        elif statement == "refer to jobs":
            # A temporary table may not point at a lasting one at all: nobody can hold rows of the queue that way.
            with pytest.raises((errors.InvalidTableDefinition, errors.InsufficientPrivilege)):
                connection.execute(text)
        else:
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(text)
    finally:
        connection.rollback()


@pytest.mark.parametrize("role", sorted(set(ALLOWED) - {"migrator"}))
def test_no_role_passes_its_rights_on(role: str, granted: Place, logins: dict[str, Session]) -> None:
    connection = logins[role]
    try:
        # Where the role has a right without the option to grant it, PostgreSQL warns and grants nothing.
        with suppress(errors.InsufficientPrivilege, errors.UndefinedTable, errors.InvalidSchemaName):
            connection.execute("grant all on job to public")
            connection.commit()
    finally:
        connection.rollback()
    assert granted.ask("select has_table_privilege('public', 'job', 'select'), has_any_column_privilege('public', 'job',"
                       " 'select'), has_table_privilege('public', 'job', 'delete')") == [(False, False, False)]  # fmt: skip


def test_every_column_of_the_table_belongs_to_a_decision(granted: Place) -> None:
    """A new column has to be given to the roles that need it, or be kept from them here."""
    columns = {name for (name,) in granted.ask("select attname from pg_attribute where attrelid = 'job'::regclass"
                                               " and attnum > 0 and not attisdropped")}  # fmt: skip

    def having(role: str, right: str) -> set[str]:
        query = (
            "select attname from pg_attribute where attrelid = 'job'::regclass and attnum > 0 and not attisdropped"
            f" and has_column_privilege('{getattr(granted.roles, role)}', attrelid, attnum, '{right}')"
        )
        return {str(name) for (name,) in granted.ask(query)}

    assert having("worker", "select") == columns
    assert having("viewer", "select") == columns - {"payload", "result"}
    made_once = {"id", "topic", "payload", "idempotency_key", "priority", "max_attempts", "tags", "metadata",
                 "retry_of", "concurrency_key"}  # fmt: skip
    assert having("producer", "insert") == made_once | {"available_at"}
    assert having("worker", "update") == columns - made_once - {"created_at"}
    assert having("janitor", "update") == {"updated_at"}
    assert having("producer", "update") == having("viewer", "update") == having("worker", "insert") == set()


def test_everything_in_the_schema_belongs_to_the_owner(granted: Place) -> None:
    owners = granted.ask(
        "select distinct pg_get_userbyid(owner) from ("
        " select relowner as owner from pg_class where relnamespace = 'jobs'::regnamespace"
        " union all select proowner from pg_proc where pronamespace = 'jobs'::regnamespace"
        " union all select typowner from pg_type where typnamespace = 'jobs'::regnamespace"
        " union all select stxowner from pg_statistic_ext where stxnamespace = 'jobs'::regnamespace) as each"
    )
    assert owners == [(granted.roles.owner,)]


def test_no_role_can_log_in_or_do_more_than_a_plain_one(granted: Place) -> None:
    names = [getattr(granted.roles, each.name) for each in fields(Roles)]
    rows = granted.ask(
        "select rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls"
        " from pg_roles where rolname = any(%s)",
        names,
    )
    assert rows == [(False,) * 6] * 6


def test_running_it_again_changes_nothing_and_takes_back_what_was_granted_beyond_it(empty_dsn: str) -> None:
    def rights(found: Place) -> list[tuple[object, ...]]:
        return found.ask("select relname, relacl::text from pg_class where relnamespace = 'jobs'::regnamespace"
                         " union all select attname, attacl::text from pg_attribute"
                         " where attrelid = 'job'::regclass and attacl is not null"
                         " union all select proname, proacl::text from pg_proc where pronamespace = 'jobs'::regnamespace"
                         " order by 1")  # fmt: skip

    with place(empty_dsn) as found:
        before = rights(found)
        grants.apply(found.dsn, found.schema, found.roles)
        assert rights(found) == before
        found.ask(f"grant all on job to {found.roles.viewer}; grant update (payload) on job to {found.roles.worker}")
        # The migrators may do it too: everything that needs more is there already.
        grants.apply(found.login("second", "migrator"), found.schema, found.roles)
        assert rights(found) == before


def test_a_migrator_who_is_no_superuser_goes_all_the_way_up_and_down(empty_dsn: str) -> None:
    with place(empty_dsn, migrated=False) as found:
        deploy = found.login("deploy", "migrator")
        assert [each.version for each in migrate.up(deploy, found.schema)][-1] == migrate.LATEST
        grants.apply(deploy, found.schema, found.roles)
        # Another one, later: what the first has made is the owner's, not hers.
        other = found.login("other", "migrator")
        versions = len(migrate.status(other, found.schema))
        assert len(migrate.down(other, found.schema, steps=versions)) == versions
        assert migrate.up(other, found.schema)
        with pytest.raises(BrooqError):
            migrate.down(found.login("plain", "worker"), found.schema)


@pytest.mark.parametrize(
    "schema", ['a"; drop schema public; --', "$brooq$", "it's", "50%", "слово", '"brooq_owner"', "a" * 63]
)
def test_names_are_quoted_whatever_they_are(schema: str, empty_dsn: str) -> None:
    """S11: identifiers go in quoted, once, and the body's own quotes cannot be ended by one."""
    with place(empty_dsn, migrated=False) as found:
        roles = replace(found.roles, worker=f"w'\"$brooq$%I_{found.mark}")
        grants.apply(empty_dsn, schema, roles)
        migrate.up(found.login("deploy", "migrator"), schema)
        grants.apply(empty_dsn, schema, roles)
        rows = found.ask(
            "select has_table_privilege(%s, c.oid, 'select') from pg_class as c join pg_namespace as n"
            " on n.oid = relnamespace where relname = 'job' and nspname = %s",
            roles.worker, schema,
        )  # fmt: skip
        assert rows == [(True,)]
        assert found.ask("select count(*) from pg_namespace where nspname = 'public'") == [(1,)]


@pytest.mark.parametrize(
    ("schema", "roles"),
    [
        ("", Roles()), ("a" * 64, Roles()), ("a\0", Roles()), ("\udcff", Roles()),
        ("jobs", Roles(owner="")), ("jobs", Roles(owner="public")), ("jobs", Roles(worker="pg_monitor")),
        ("jobs", Roles(viewer="none")), ("jobs", Roles(worker="brooq_owner")), ("jobs", Roles(janitor="x" * 64)),
    ],
)  # fmt: skip
def test_names_that_postgresql_cannot_hold_are_refused(schema: str, roles: Roles) -> None:
    with pytest.raises(ConfigError) as caught:
        grants.script(schema, roles)
    str(caught.value).encode()


def test_a_role_that_may_more_is_not_made_part_of_it(empty_dsn: str) -> None:
    with place(empty_dsn, migrated=False) as found:
        found.ask(f"alter role {found.roles.worker} createrole")
        with pytest.raises(SchemaError, match=found.roles.worker):
            grants.apply(empty_dsn, found.schema, found.roles)


def test_the_command_prints_what_apply_does(empty_dsn: str, tmp_path: Path) -> None:
    with place(empty_dsn, migrated=False) as found:
        names = [part for each in fields(Roles) for part in (f"--{each.name}", getattr(found.roles, each.name))]
        printed = inside("grants", "--schema", "mine", *names, cwd=tmp_path)
        assert (printed.returncode, printed.stderr) == (0, "")
        assert printed.stdout == grants.script("mine", found.roles)
        assert inside("migrate", "up", "--schema", "mine", dsn=empty_dsn, cwd=tmp_path).returncode == 0
        applied = inside("grants", "--schema", "mine", *names, "--apply", dsn=empty_dsn, cwd=tmp_path)
        assert (applied.returncode, applied.stderr) == (0, "")
        wrong = inside("grants", "--owner", "public", cwd=tmp_path)
        assert wrong.returncode == 2
        plain = found.login("plain")
        refused = inside("grants", "--worker", f"new_{found.mark}", "--apply", dsn=plain, cwd=tmp_path)
        assert refused.returncode == 1
        assert "42501" in refused.stderr


# --- the whole workload with no more than that ---


async def until(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  the database has no event to wait for
            await asyncio.sleep(0.02)


async def test_every_verb_of_the_store_works_with_the_least_role(empty_dsn: str) -> None:
    with place(empty_dsn) as found:
        async with (
            Opened(found.login("app", "producer"), found.schema) as producer,
            Opened(found.login("work", "worker"), found.schema) as work,
            Opened(found.login("clean", "janitor"), found.schema) as janitor,
        ):
            for store in (producer, work, janitor):
                await store.open()
            first, second, third = await producer.enqueue(None, [Job("t", 1, "k1"), Job("t", 2, "k2"), Job("t", 3)])
            assert (await producer.enqueue(None, [Job("t", 9, "k1")])) == [(first.id, False)]
            lease = Config(lease=60).lease_time
            taken = (await work.exchange("w", [], ["t"], 3, lease)).taken
            assert [each.payload for each in taken] == ["1", "2", "3"]
            renewer = await work.renewer()
            assert len((await renewer.renew("w", [each.hold for each in taken], lease)).renewed) == 3
            await renewer.close()
            ended = await work.exchange("w", [Outcome(first.id, 1, State.DONE)], [], 0, lease)
            assert ended.settled == [Hold(first.id, 1)]
            async with await work.begin() as tx:
                assert await work.settle(tx, "w", Outcome(second.id, 1, State.FAILED, "no", 0.0))
            assert (await work.fates([third.id]))[third.id].owner == "w"
            assert (await work.cancel(second.id)).canceled
            found.ask("update job set locked_until = now() - interval '1 second' where state = 'processing'")
            assert [each.id for each in await work.reap(10)] == [third.id]
            assert {depth.topic for depth in (await work.census(["t"])).depths} == {"t"}
            record = await work.find(first.id)
            assert record is not None
            assert record.state is State.DONE
            assert await janitor.prune(Config(retention_ttl=0.001).lease_time * 0, 10) == ["t", "t"]
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await work.prune(lease, 10)
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await producer.cancel(third.id)
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await janitor.find(third.id)


async def test_a_queue_of_all_endings_runs_with_the_least_roles(empty_dsn: str) -> None:
    """Success, failure, chain, callback, delay, cancel, reaper, retention, census: nothing asks for more."""
    with place(empty_dsn) as found:
        dsn = found.login("app", "worker", "producer", "janitor")
        async with Opened(dsn, found.schema) as store:
            queue = Queue(store, Config(workers=4, poll_interval=0.05, reaper_period=0.1, lease=5,
                                        retention_period=0.1, census_period=0.1, backoff_base=0.05,
                                        backoff_max=0.05))  # fmt: skip

            @queue.kind("all", max_attempts=2)
            async def handle(claim: Claim) -> None:
                what = claim.payload
                if what == "fail" or (what == "once" and claim.attempt == 1):
                    raise ValueError(what)
                if what == "cancel":
                    raise MustCancel
                if what == "delay" and claim.attempt == 1:
                    raise MustDelay(0.05)
                if what == "chain":
                    claim.chain(Job("all", "chained"))

            await queue.enqueue_many(
                [Job("all", each) for each in ("done", "fail", "once", "cancel", "delay", "chain")]
            )
            tx = await queue.begin()
            await queue.enqueue_tx(tx, Job("all", "in a transaction"))
            await tx.commit()
            async with queue:
                await until(
                    lambda: found.ask("select 1 from job where state not in ('done', 'dead', 'canceled')") == []
                )
                await until(lambda: queue.metrics.census is not None)
                assert all(queue.health().loops.values())
        states = dict(found.ask("select payload #>> '{}', state from job"))
        assert states == {"done": "done", "fail": "dead", "once": "done", "cancel": "canceled", "delay": "done",
                          "chain": "done", "chained": "done", "in a transaction": "done"}  # fmt: skip


def test_a_worker_process_and_the_commands_run_with_the_least_roles(empty_dsn: str, tmp_path: Path) -> None:
    with place(empty_dsn) as found:
        producer = found.login("app", "producer")
        viewer = found.login("look", "viewer")
        made = inside("enqueue", "demo", '{"n": 1}', dsn=producer, cwd=tmp_path, QUEUE_SCHEMA="jobs")
        assert (made.returncode, made.stderr) == (0, "")
        with worker(dsn=found.login("work", "worker", "janitor"), cwd=tmp_path, QUEUE_SCHEMA="jobs",
                    QUEUE_RETENTION_PERIOD="100ms") as process:  # fmt: skip
            process.wait_for("demo job")
            process.send()
            assert process.exit_code() == 0
        assert "permission denied" not in process.log
        assert found.ask("select state from job") == [("done",)]
        seen = inside("stats", "--json", dsn=viewer, cwd=tmp_path, QUEUE_SCHEMA="jobs")
        assert seen.returncode == 0, seen.stderr
        assert '"demo"' in seen.stdout
        hidden = inside("show", made.stdout.strip(), dsn=viewer, cwd=tmp_path, QUEUE_SCHEMA="jobs")
        assert hidden.returncode == 1
        assert "permission denied" in hidden.stderr


async def test_a_worker_that_does_not_own_the_table_estimates_what_is_done_in_a_big_one(empty_dsn: str) -> None:
    """PostgreSQL shows statistics of topic and state together to the owner alone; without them 0 would be a lie."""
    with place(empty_dsn) as found:
        found.ask("insert into job (topic, state, payload) select case when n % 4 = 0 then 'a' else 'b' end, 'done',"
                  " to_jsonb(repeat(md5(n::text), 30)) from generate_series(1, 24000) as n")  # fmt: skip
        found.ask("analyze job")
        async with Opened(found.login("work", "worker"), found.schema) as store:
            census = await store.census(["a"])
        depths = {(each.topic, each.state): each for each in census.depths}
        done = depths["a", State.DONE]
        assert not done.exact
        assert 4500 < done.jobs < 7500
        assert 15000 < depths["b", State.DONE].jobs < 21000


@pytest.mark.security("S13")
async def test_the_recipe_of_policies_keeps_a_worker_to_its_topics(empty_dsn: str) -> None:
    (recipe,) = blocks(SECURITY, "sql")
    with place(empty_dsn) as found:
        found.ask(recipe.text.replace("brooq_worker", found.roles.worker))
        async with (
            Opened(found.login("app", "producer"), found.schema) as producer,
            Opened(found.login("work", "worker"), found.schema) as store,
        ):
            mail, other = await producer.enqueue(None, [Job("mail.send"), Job("sms.send")])
            taken = (await store.exchange("w", [], ["mail.send", "sms.send"], 5, Config().lease_time)).taken
            assert [each.id for each in taken] == [mail.id]
            assert not (await store.cancel(other.id)).canceled
            assert await store.find(other.id) is None
        assert found.ask("select state from job where topic = 'sms.send'") == [("pending",)]
