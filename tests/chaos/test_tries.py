"""Counting zombie writes: each is seen, and whether it was refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.tries import CLOSING, FENCE, OUTCOME, RENEWAL, Tries, WatchedStore, Zombies, zombies
from tests.database import Server
from tests.planted.stage import Stage, staged
from tests.planted.statements import FENCE as FENCED
from tests.planted.statements import without

from brooq.engine.store import Hold


async def haunt(stage: Stage) -> None:
    """A worker loses two jobs to another one, and writes all that a worker writes."""
    for _ in range(2):
        old, new = await stage.retaken("w", "v")
        await stage.renew(old)
        await stage.renew(new, "v")
        async with await stage.store.begin() as tx:
            assert not await stage.store.assert_held(tx, Hold(old.id, old.token))
            await tx.rollback()
        await stage.close(old)
        await stage.end(old)
        await stage.end(new, worker="v")


async def counted(dsn: str, folder: Path, *, weak: bool) -> Zombies:
    """What the count says after that."""
    tries = Tries(folder / "tries.jsonl")
    async with staged(dsn, folder) as stage:
        stage.store = WatchedStore(stage.store.pool, tries)
        if weak:
            stage.weaken("exchange", without(FENCED, " and job.locked_by = $1 and job.claim_seq = outcome.token"))
        try:
            await haunt(stage)
        finally:
            await stage.store.close()
            tries.close()
        return zombies(dsn, tries.path)


@pytest.mark.parametrize("weak", [False, True], ids=["as shipped", "without its fence"])
async def test_zombie_writes_are_counted_and_an_accepted_one_is_told(
    postgres: Server, tmp_path: Path, weak: bool
) -> None:
    """What the second claim writes is no zombie's."""
    with postgres.database(migrated=True) as dsn:
        found = await counted(dsn, tmp_path, weak=weak)
    assert found.tried == {OUTCOME: 2, CLOSING: 2, RENEWAL: 2, FENCE: 2}
    assert len(found.accepted) == (2 if weak else 0)
    assert all(line.startswith(f"{OUTCOME} of claim 1 of job ") for line in found.accepted)
    assert str(found) == (
        "8 zombie writes (2 outcome, 2 closing transaction, 2 renewal, 2 fenced transaction), "
        f"{2 if weak else 0} accepted"
    )
