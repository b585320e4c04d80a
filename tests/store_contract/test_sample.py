"""Verb `sample`: what was counted is taken without a word."""

from __future__ import annotations

import pytest
from tests.store_contract.place import Place

from brooq.engine.store import Sample

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_samples_are_taken_and_touch_no_job(place: Place) -> None:
    id = await place.job()
    await place.store.sample([Sample("t", done=3, waiting=1), Sample("u", failed=2, oldest=1.5)], 10.0)
    await place.store.sample([Sample("t", done=1)], 0.0)
    assert (await place.row(id)).state == "pending"
