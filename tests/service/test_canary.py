"""A password with a canary in it goes through every failure there is, and nothing that leaves the process shows it (S8)."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.database import Server
from tests.postgres.observer import Observer
from tests.service.brooq_process import inside, worker

from brooq import Claim, Config, Job, Queue
from brooq.postgres import PostgresStore, grants, migrate, open_pool
from brooq.postgres.dsn import describe, mask
from brooq.postgres.pool import Opening, make_asyncpg_pool, make_pool
from brooq.postgres.store import Pool
from brooq.service.logging import Masker, formatter
from brooq.service.secret import Secret
from brooq.service.settings import Settings

pytestmark = pytest.mark.security("S8")

CANARY = "c4nary"
DRIVERS: tuple[Literal["psycopg", "asyncpg"], ...] = ("psycopg", "asyncpg")
SHUT = "127.0.0.1:1"
"""Nobody listens there."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a path may use."""

    dsn: str
    """Of a real database."""
    folder: Path

    @property
    def port(self) -> str:
        return str(conninfo_to_dict(self.dsn)["port"])

    def as_stranger(self) -> str:
        """The real database, with a password that is wrong."""
        return f"postgresql://stranger:{CANARY}@127.0.0.1:{self.port}/{conninfo_to_dict(self.dsn)['dbname']}"


Path_ = Callable[[Scene], str]

FORMS = {
    "a URI": f"postgresql://u:{CANARY}@{SHUT}/x",
    "a URI, short": f"postgres://u:{CANARY}@{SHUT}/x",
    "a URI, encoded": f"postgresql://u:%63{CANARY[1:]}%40{CANARY}@{SHUT}/x",
    "a URI, not encoded": f"postgresql://u:{CANARY}@{CANARY}@{SHUT}/x",
    "a URI with a slash in it": f"postgresql://u:{CANARY}/{CANARY}@{SHUT}/x",
    "a URI with a hash in it": f"postgresql://u:{CANARY}#{CANARY}@{SHUT}/x",
    "a URI with a bad escape": f"postgresql://u:{CANARY}%zz@{SHUT}/x",
    "a URI with a blank": f"postgresql://u:{CANARY} {CANARY}@{SHUT}/x",
    "a URI with a bad port": f"postgresql://u:{CANARY}@127.0.0.1:{CANARY}/x",
    "a URI of another kind": f"mysql://u:{CANARY}@{SHUT}/x",
    "a URI with one slash": f"postgres:/u:{CANARY}@{SHUT}/x",
    "a URI without a scheme": f"u:{CANARY}@{SHUT}/x",
    "a query": f"postgresql://{SHUT}/x?user=u&password={CANARY}",
    "a query, misspelt": f"postgresql://{SHUT}/x?user=u&pasword=1&password={CANARY}",
    "a key for TLS": f"postgresql://u@{SHUT}/x?sslpassword={CANARY}",
    "pairs": f"host=127.0.0.1 port=1 user=u password={CANARY}",
    "pairs, quoted": f"host=127.0.0.1 port=1 user=u password='{CANARY} {CANARY}'",
    "pairs, never closed": f"host=127.0.0.1 port=1 user=u password='{CANARY} {CANARY}",
    "pairs with a word too many": f"host=127.0.0.1 port=1 user=u password=two {CANARY}",
    "two hosts": f"postgresql://u:{CANARY}@{SHUT},{SHUT}/x",
    "a host that is not there": f"postgresql://u:{CANARY}@no-such-host.invalid/x",
    "a socket that is not there": f"host=/nowhere user=u password={CANARY}",
}
COMMANDS = (
    ["migrate", "up"], ["migrate", "down", "--yes"], ["migrate", "status"], ["enqueue", "a", "1"], ["jobs"], ["stats"],
    ["cancel", "00000000-0000-0000-0000-000000000000"], ["show", "00000000-0000-0000-0000-000000000000"], ["check"],
    ["grants", "--apply"],
)  # fmt: skip
WRONG_PLACES = ("HTTP_ADDR", "LOG_LEVEL", "LOG_FORMAT", "QUEUE_LEASE", "QUEUE_WORKERS", "QUEUE_PREPARED", "QUEUE_LEESE")
ELSEWHERE = {
    "asyncpg's parameters": f"ConnectionParameters(user='u', password='{CANARY}', database='x', ssl=None)",
    "asyncpg's mapping": f"{{'user': 'u', 'password': '{CANARY}', 'host': 'h'}}",
    "asyncpg's DSN": f"invalid DSN: scheme is expected to be postgresql: 'postgresql+asyncpg://u:{CANARY}@h/x'",
    "asyncpg's refusal": f'invalid connection option "password": "{CANARY} {CANARY}"',
    "SQLAlchemy's URL": f"Could not parse SQLAlchemy URL from given URL string 'postgresql+psycopg://u:{CANARY}@h'",
    "Django's settings": f"{{'ENGINE': 'x', 'NAME': 'x', 'PASSWORD': '{CANARY}'}}",
    "an environment": f"PGHOST=h PGPASSWORD={CANARY}",
    "JSON": json.dumps({"dsn": f"postgresql://u:{CANARY}@h/x", "password": CANARY}),
}


def command(arguments: list[str], dsn: str | None, scene: Scene, **values: str) -> str:
    """All that a command says, at its most talkative."""
    done = inside(*arguments, dsn=dsn, cwd=scene.folder, **{"LOG_LEVEL": "debug", **values})  # type: ignore[arg-type]
    assert done.returncode != 0
    return done.stdout + done.stderr


def as_stranger(arguments: list[str], scene: Scene) -> str:
    return command(arguments, scene.as_stranger(), scene)


def held_in(name: str, scene: Scene) -> str:
    """A setting of another name holds the DSN."""
    return command(["check"], None, scene, **{name: FORMS["a URI"]})


def whole(error: BaseException) -> str:
    """All that a traceback shows of an error, of its cause and of what it came from."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


async def failure(work: Any) -> str:
    """The error that this raises."""
    try:
        await work
    except Exception as error:
        return whole(error)
    raise AssertionError("it did not fail")


def opening(dsn: str, driver: Literal["psycopg", "asyncpg"], scene: Scene) -> str:
    async def work() -> None:
        opened: Opening[Any] = open_pool(dsn, driver=driver, timeout=0.3)
        async with opened:
            pass

    return asyncio.run(failure(work()))


def verb(name: str, driver: str, scene: Scene) -> str:
    """One verb of a store whose database refuses it; what the pool logs meanwhile is part of it."""

    async def work() -> str:
        pool: Pool
        if driver == "asyncpg":
            pool = make_asyncpg_pool(scene.as_stranger(), min_size=0, max_size=1)
        else:
            pool = make_pool(scene.as_stranger(), min_size=0, max_size=1, timeout=0.3)
        store = PostgresStore(pool)
        await store.driver.open()
        job = Job("a", 1)
        verbs: dict[str, Callable[[], Any]] = {
            "open": store.open, "begin": store.begin, "enqueue": lambda: store.enqueue(None, [job]),
            "cancel": lambda: store.cancel(job.id), "find": lambda: store.find(job.id), "reap": lambda: store.reap(1),
            "census": lambda: store.census([]),
            "exchange": lambda: store.exchange("w", [], ["a"], 1, Config().lease_time),
        }  # fmt: skip
        try:
            return await failure(verbs[name]()) + repr(store) + repr(pool)
        finally:
            await store.close()
            await store.driver.close(2.0)

    return asyncio.run(work())


def deploying(step: Callable[..., object], scene: Scene) -> str:
    try:
        step(scene.as_stranger())
    except Exception as error:
        return whole(error)
    raise AssertionError("it did not fail")


def logged(text: str, scene: Scene) -> str:
    """A record that has it in its message, its arguments, its fields and its traceback."""
    masker = Masker([Secret(scene.as_stranger())])
    try:
        int(text)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    made = logging.getLogger("x").makeRecord("x", 40, "f", 1, "%s: %s", ("a", text), info, extra={"x": [text]})
    return "\n".join(formatter(masker, form=form, terminal=True).format(made) for form in ("json", "console"))


def process(source: str, scene: Scene) -> str:
    """A process of its own, with logs as the worker has them."""
    head = (
        "import asyncio, logging, sys, threading, warnings\n"
        "from brooq.service.logging import Masker, configure\nfrom brooq.service.secret import Secret\n"
        f"DSN = {scene.as_stranger()!r}\nconfigure(Masker([Secret(DSN)]), form='json')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + source], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr
    return done.stdout + done.stderr


def shown(scene: Scene) -> str:
    settings = Settings(database_url=Secret(scene.as_stranger()), http_token=(Secret(CANARY * 8),))
    secret = settings.database_url
    text = f"{settings!r} {settings} {secret} {secret!r} {secret:>9} {describe(scene.as_stranger())}"
    return text + pickle.dumps(settings).decode("latin-1") + json.dumps(settings, default=str)


def at_work(arguments: list[str], dsn: str | None, told: str, scene: Scene, **values: str) -> str:
    """A worker that cannot reach its database: its log, its surface, and what /proc shows of it to everybody."""
    with worker(*arguments, dsn=dsn, cwd=scene.folder, LOG_LEVEL="debug", **values) as running:
        port = running.port()
        running.wait_for(told)
        answers = [
            httpx.get(f"http://127.0.0.1:{port}/{path}", trust_env=False).text
            for path in ("healthz", "readyz", "metrics")
        ]
        proc = Path("/proc") / str(running.process.pid)
        public = [(proc / name).read_bytes().decode() for name in ("cmdline", "comm", "status") if proc.is_dir()]
        running.send()
        assert running.exit_code() == 0, running.log
        return running.log + "".join(answers) + "".join(public)


def last_error(text: str, scene: Scene) -> str:
    """A handler that quotes it: what is stored, listed, shown and logged."""
    (scene.folder / "quoting.py").write_text(
        "import os\nfrom contextlib import asynccontextmanager\nfrom brooq import Queue\n"
        "from brooq.postgres import PostgresStore\nfrom brooq.service.settings import load\n"
        "async def quote(claim):\n    raise ValueError(os.environ['QUOTED'])\n"
        "@asynccontextmanager\nasync def app():\n    settings = load(database=True)\n"
        "    async with settings.make_pool() as pool:\n"
        "        queue = Queue(PostgresStore(pool), settings.config)\n"
        "        queue.register_kind('quote', quote)\n        yield queue\n"
    )
    observer = Observer(scene.dsn)
    try:
        observer.run("insert into job (topic, max_attempts) values ('quote', 1)")
        with worker("--app", "quoting:app", dsn=scene.dsn, cwd=scene.folder, QUOTED=text,
                    HTTP_TOKEN=f"{CANARY}-{'x' * 32}") as running:  # fmt: skip
            asyncio.run(observer.until(lambda: observer.value("select state from job") == "dead"))
            running.send()
            assert running.exit_code() == 0
        row = observer.run("select last_error, failures::text from job")
        listed = inside("jobs", "--json", dsn=scene.dsn, cwd=scene.folder)
        assert "ValueError" in str(row)
        return running.log + str(row) + listed.stdout
    finally:
        observer.close()


def cancelled_in_the_middle(scene: Scene) -> str:
    """What asyncio says by itself of a task that nobody asked for its error."""
    return process(
        "async def main():\n    asyncio.ensure_future(fail())\n    await asyncio.sleep(0.01)\n"
        "async def fail():\n    raise ValueError(DSN)\nasyncio.run(main())\nimport gc; gc.collect()",
        scene,
    )


def a_queue_that_cannot_start(scene: Scene) -> str:
    async def work() -> str:
        pool = make_pool(scene.as_stranger(), min_size=0)
        queue = Queue(PostgresStore(pool))

        async def handler(claim: Claim) -> None: ...

        queue.register_kind("a", handler)
        try:
            return await failure(queue.start()) + repr(queue)
        finally:
            await queue.close()

    return asyncio.run(work())


def wrong_database(scene: Scene) -> str:
    place = conninfo_to_dict(scene.dsn)
    dsn = f"postgresql://{place['user']}:{place.get('password', '')}@127.0.0.1:{place['port']}/{CANARY.upper()}"
    said = command(["check"], dsn, scene)
    assert str(place.get("password") or CANARY) not in said
    return said


PATHS: dict[str, Path_] = {
    **{f"check, {name}": partial(command, ["check"], dsn) for name, dsn in FORMS.items()},
    **{f"open_pool with {driver}, {name}": partial(opening, dsn, driver)
       for driver in DRIVERS for name, dsn in FORMS.items() if "invalid" not in dsn},
    **{f"{' '.join(each)}, wrong role": partial(as_stranger, each) for each in COMMANDS},
    **{f"{name} holds the DSN": partial(held_in, name) for name in WRONG_PLACES},
    **{f"the store's {name} with {driver}": partial(verb, name, driver)
       for driver in DRIVERS for name in ("open", "begin", "enqueue", "cancel", "find", "reap", "census", "exchange")},
    "migrate.up": partial(deploying, migrate.up), "migrate.down": partial(deploying, migrate.down),
    "migrate.status": partial(deploying, migrate.status), "grants.apply": partial(deploying, grants.apply),
    **{f"a log of {name}": partial(logged, text) for name, text in {**FORMS, **ELSEWHERE}.items()},
    "an error that nobody caught": partial(process, "raise ValueError(DSN)"),
    "one in a thread": partial(process, "t = threading.Thread(target=lambda: int(DSN)); t.start(); t.join()"),
    "one of a finalizer": partial(process, "class A:\n    def __del__(self): raise ValueError(DSN)\nA()"),
    "a warning": partial(process, "warnings.warn(DSN)"),
    "another logger": partial(process, "logging.getLogger('other').error('%s', {'dsn': DSN})"),
    "wrong arguments of a log": partial(process, "logging.getLogger('other').error('%d', DSN)"),
    "a chain of errors": partial(process, "try:\n    int(DSN)\nexcept ValueError as e:\n    raise OSError(DSN) from e"),
    "a task that nobody awaited": cancelled_in_the_middle,
    "settings and secrets": shown,
    "a queue that cannot start": a_queue_that_cannot_start,
    "a database that is not there": wrong_database,
    "a worker without a database": partial(at_work, [], FORMS["a URI"], "does not answer"),
    "a worker with a wrong password":
        lambda scene: at_work([], scene.as_stranger(), "does not answer", scene),
    "a worker with pairs": partial(at_work, [], FORMS["pairs"], "does not answer"),
    "a worker with a token": partial(at_work, [], FORMS["a URI"], "does not answer", HTTP_TOKEN=f"{CANARY}{'x' * 32}"),
    "last_error with a DSN": partial(last_error, FORMS["a URI"]),
    "last_error with the token": partial(last_error, f"the token is {CANARY}-{'x' * 32}"),
}  # fmt: skip


@pytest.fixture
def scene(postgres: Server, dsn: str, tmp_path: Path) -> Scene:
    assert postgres
    return Scene(dsn, tmp_path)


@pytest.mark.parametrize("path", PATHS)
def test_no_way_out_of_the_process_shows_the_password(path: str, scene: Scene) -> None:
    said = PATHS[path](scene)
    assert said
    # In upper case it stands for the name of a database, which may be told.
    assert CANARY not in said, said
    assert CANARY[1:] not in said, said


def test_there_are_at_least_sixty_ways() -> None:
    assert len(PATHS) >= 60


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_other_drivers_print_is_masked_without_knowing_the_password(name: str) -> None:
    assert CANARY not in mask(ELSEWHERE[name])


def test_the_driver_would_show_it() -> None:
    """Without the mask there is something to find, or this file would prove nothing."""
    found = 0
    for dsn in FORMS.values():
        try:
            psycopg.connect(dsn, connect_timeout=1).close()
        except (psycopg.Error, UnicodeError) as error:
            found += CANARY in str(error)
    assert found >= 3
