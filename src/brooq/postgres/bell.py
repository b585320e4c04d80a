"""The bell: how an idle worker hears of a job at its commit, over a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from brooq.postgres.session import Driver, Session
from brooq.postgres.statement import Statements
from brooq.postgres.trouble import translate
from brooq.vocabulary.error import StoreRefused
from brooq.vocabulary.message import text

CHANNEL = "brooq_wakeups"


class PostgresBell:
    """Listens for the wake-ups of `enqueue.sql`."""

    def __init__(self, driver: Driver, statements: Statements, schema: str, topics: Sequence[str]) -> None:
        """Connects when it is first hung up. `schema` is the quoted name."""
        self._driver = driver
        self._statements = statements
        self._topics = list(topics)
        self._wanted = {f"{schema}.{topic}": topic for topic in topics}
        self._cancels = f"{schema}. "
        self._canceled: list[UUID] = []
        self._rings = 0
        self._rung: Callable[[str], None] = lambda _: None
        self._session: Session | None = None

    async def hang_up(self, rung: Callable[[str], None]) -> None:
        """Producers ring from now on; `rung` hears the topic. Raises StoreUnavailable; StoreRefused behind a pooler: no
        session to listen in."""
        self._rung = rung
        try:
            session = self._session or await self._connect()
            await session.fetch(self._statements.wait, [self._topics])
        except self._driver.errors as error:
            await self.close()
            raise translate(error) from None
        except BaseException:
            await self.close()  # canceled, say: it is not known whether it listens
            raise

    async def _connect(self) -> Session:
        session = self._session = await self._driver.connect()
        await session.listen(CHANNEL, self._hear)
        ((pid,),) = await session.fetch("select pg_backend_pid()")
        if pid != session.pid:
            raise StoreRefused(text("postgres.no_sessions"))
        return session

    async def take_down(self) -> None:
        """Producers ring no more. Raises StoreUnavailable."""
        if self._session is None:
            return
        try:
            await self._session.fetch(self._statements.wait_no_more, [self._topics])
        except self._driver.errors as error:
            await self.close()
            raise translate(error) from None

    async def wait(self, seconds: float) -> int:
        """How often it has rung; waits until it rings, for at most so many seconds. Raises StoreUnavailable."""
        assert self._session is not None, "it does not hang"
        try:
            await self._session.heard(seconds)
        except self._driver.errors as error:
            await self.close()
            raise translate(error) from None
        rings, self._rings = self._rings, 0
        return rings

    def _hear(self, payload: str) -> None:
        """Anybody may notify anything: what is no topic of ours is no ring, and what is no id is no cancel."""
        topic = self._wanted.get(payload)
        if topic is not None:
            self._rings += 1
            self._rung(topic)
        elif payload.startswith(self._cancels):
            try:
                self._canceled.append(UUID(payload.removeprefix(self._cancels)))
            except ValueError:
                pass

    def canceled(self) -> list[UUID]:
        """The jobs that were canceled while they ran, as far as `wait` has heard; each is told once."""
        told, self._canceled = self._canceled, []
        return told

    async def close(self) -> None:
        """Let go of the connection, and with it of whoever would ring."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
