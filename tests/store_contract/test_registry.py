"""The list of engines: `announce` and `withdraw`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from tests.store_contract.place import Place

from brooq.engine.store import Presence, Running

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = timedelta(hours=1)
MAIL = Running(UUID(int=7), "mail", 3, 1.5, hung=True)
HERE = Presence(
    "one:1:aa",
    "host",
    1,
    "0.1.0",
    2.5,
    stopping=False,
    slots=4,
    topics=("mail", "t"),
    busy={"mail": 1},
    running=(MAIL,),
)
OTHER = replace(HERE, name="two:2:bb", busy={}, running=())


async def test_an_engine_is_on_the_list_as_it_said_last(place: Place) -> None:
    await place.store.announce(OTHER, LONG)
    await place.store.announce(replace(HERE, running=()), LONG)
    assert await place.ground.workers() == [replace(HERE, running=()), OTHER]
    later = replace(HERE, uptime=10.0, stopping=True, slots=5, topics=())
    await place.store.announce(later, LONG)
    (found, other) = await place.ground.workers()
    assert (found.running, found.stopping, found.slots, found.topics) == ((MAIL,), True, 5, ())
    assert other == OTHER


async def test_an_engine_that_has_withdrawn_is_not_on_the_list(place: Place) -> None:
    await place.store.announce(HERE, LONG)
    await place.store.announce(OTHER, LONG)
    await place.store.withdraw(HERE.name)
    await place.store.withdraw("nobody")
    assert await place.ground.workers() == [OTHER]


async def test_a_silent_engine_is_forgotten_by_the_others_and_never_by_itself(place: Place) -> None:
    await place.store.announce(OTHER, LONG)
    await place.store.announce(HERE, LONG)
    await place.store.announce(HERE, LONG)
    assert len(await place.ground.workers()) == 2
    await place.store.announce(HERE, timedelta(seconds=-1))  # whatever was said before now is too old
    assert [each.name for each in await place.ground.workers()] == [HERE.name]


@pytest.mark.parametrize("text", ["", "é" * 100, "'; drop table job; --", '{"a": "\\u0000"}'])
async def test_whatever_an_engine_is_called_is_kept(place: Place, text: str) -> None:
    odd = replace(HERE, name=text or "x", host=text, version=text, topics=(text,))
    await place.store.announce(odd, LONG)
    assert await place.ground.workers() == [odd]
