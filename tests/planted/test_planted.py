"""Every planted bug is seen by the checker, for the promise that it breaks; the original passes the same schedule."""

from __future__ import annotations

import pytest
from tests.database import Server
from tests.planted.stage import Bug
from tests.planted.trial import BUGS, trial

from brooq.service.verify.ledger import NEEDS


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
async def test_a_planted_bug_is_seen_and_the_original_is_clean(bug: Bug, postgres: Server) -> None:
    clean, found = await trial(bug, postgres)
    assert clean == []
    assert {violation.promise for violation in found} >= set(bug.promises), found


def test_every_promise_has_a_bug_that_breaks_it() -> None:
    names = [bug.name for bug in BUGS]
    assert len(set(names)) == len(names) >= 25
    assert set(NEEDS) == {promise for bug in BUGS for promise in bug.promises}
