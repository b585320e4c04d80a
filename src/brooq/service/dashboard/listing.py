"""Lists: jobs by any filter, the dead by what they died of, the workers."""

from __future__ import annotations

from uuid import UUID

from starlette.responses import Response

from brooq.postgres.board import Board, Filter
from brooq.service.dashboard.visit import Refused, Visit, go
from brooq.vocabulary.job import State

PAGE = 50
FIELDS = ("state", "topic", "worker", "error", "key")


async def jobs(visit: Visit, board: Board) -> Response:
    """A page of jobs. What looks like an id in the field for anything leads to that job."""
    anything = visit.ask("q")
    if anything is not None and (id := as_id(anything)):
        return go(f"/jobs/{id}")
    asked = {name: visit.ask(name) for name in FIELDS}
    if anything is not None:
        asked["key"] = anything
    state = asked["state"]
    if state is not None and state not in {*map(str, State)}:
        raise Refused(404, "board.refused_state")
    wanted = Filter(State(state) if state else None, asked["topic"], asked["worker"], asked["error"], asked["key"])
    after = visit.ask("after")
    try:
        page = await board.jobs(wanted, after, PAGE)
    except ValueError:
        raise Refused(404, "board.refused_page") from None
    return visit.page(
        "jobs.html",
        asked=asked,
        any=any(asked.values()),
        page=page,
        after=after,
        topics=sorted({depth.topic for depth in (await board.census()).depths}),
    )


async def dead(visit: Visit, board: Board) -> Response:
    """The dead, by topic and cause."""
    topic = visit.ask("topic", 128)
    groups = await board.dead(topic)
    return visit.page("dead.html", groups=groups, topic=topic)


async def workers(visit: Visit, board: Board) -> Response:
    """Who works, and at what."""
    return visit.page("workers.html", workers=await board.workers(), topics=await board.topics())


def as_id(value: str) -> UUID | None:
    """The id that somebody has pasted; None when it is none."""
    try:
        return UUID(value) if len(value) in {32, 36} else None
    except ValueError:
        return None
