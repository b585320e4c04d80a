"""What must be true of every history, read from the audit, the journal and the producers' answers."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from uuid import UUID

from tests.simulation.audit import EPOCH, Change
from tests.simulation.behaviour import LEASE, WITH_CHILD, WITH_EFFECT, Run
from tests.simulation.world import World

from brooq.vocabulary.job import JobRecord, State
from brooq.vocabulary.signal import (
    LeaseLost,
    MaxExecutionExceeded,
    MustCancel,
    MustGiveUp,
    MustPreserveAttempt,
    ShuttingDown,
    find_signal,
)

WAITING = (State.PENDING, State.FAILED)
LEGAL = {
    "exchange": {
        (State.PENDING, State.PROCESSING), (State.FAILED, State.PROCESSING), (State.PROCESSING, State.DONE),
        (State.PROCESSING, State.DEAD), (State.PROCESSING, State.FAILED), (State.PROCESSING, State.CANCELED),
        (State.PROCESSING, State.PENDING),
    },
    "commit": {(State.PROCESSING, State.DONE)},
    "renew": {(State.PROCESSING, State.PROCESSING)},
    "reap": {(State.PROCESSING, State.PENDING)},
    "cancel": {(state, State.CANCELED) for state in (State.PENDING, State.FAILED, State.PROCESSING)},
}  # fmt: skip
MARGIN = 0.25


def check(world: World) -> None:
    """Add every violation to the world's."""
    history: dict[UUID, list[Change]] = defaultdict(list)
    for change in world.changes:
        history[change.id].append(change)
    for id, changes in history.items():
        if id not in world.jobs:
            world.violate("C2", id, "nobody made it")
        _check_chain(world, id, changes)
        _check_effects(world, id, changes[-1].new)
    _check_producers(world, history)
    _check_events(world)
    _check_cancels(world)


def _check_chain(world: World, id: UUID, changes: list[Change]) -> None:
    before: JobRecord | None = None
    endings = 0
    for change in changes:
        old, new = change.old, change.new
        if old is not before:
            world.violate("C8", id, "somebody wrote round the audit")
        before = new
        if old is None or new is None:
            if new is None or (new.state, new.claim_seq, new.attempts) != (State.PENDING, 0, 0):
                world.violate("C7", id, f"made or deleted as {new}")
            continue
        if old.state.terminal:
            world.violate("C5", id, f"{old.state} overwritten by {new.state} ({change.verb})")
        elif (old.state, new.state) not in LEGAL.get(change.verb, set()):
            world.violate("C7", id, f"{old.state} -> {new.state} by {change.verb}")
        endings += new.state.terminal
        if (new.locked_by is None) != (new.locked_until is None) or (
            not new.state.terminal and (new.state is State.PROCESSING) != (new.locked_by is not None)
        ):
            world.violate("C12", id, f"{new.state} locked by {new.locked_by} until {new.locked_until}")
        _check_step(world, change, old, new)
    if endings != 1:
        world.violate("C6", id, f"{endings} terminal outcomes")


def _check_step(world: World, change: Change, old: JobRecord, new: JobRecord) -> None:
    id, at = change.id, EPOCH + timedelta(seconds=change.at)
    grown = new.attempts - old.attempts
    if old.state in WAITING and new.state is State.PROCESSING:
        if new.claim_seq != old.claim_seq + 1:
            world.violate("C4", id, f"claim_seq {old.claim_seq} -> {new.claim_seq} at a claim")
        if grown != 1 or old.available_at > at or new.locked_by != change.actor:
            world.violate("C9", id, f"claimed with attempts {grown:+}, ready at {old.available_at}")
        return
    if new.claim_seq != old.claim_seq:
        world.violate("C4", id, f"claim_seq {old.claim_seq} -> {new.claim_seq} without a claim")
    if change.verb in ("exchange", "commit", "renew") and (change.actor, change.token) != (
        old.locked_by,
        old.claim_seq,
    ):
        world.violate("C4", id, f"{change.verb} of claim {change.token} accepted while {old.claim_seq} held the job")
    if change.verb in ("renew", "reap", "cancel") and grown:
        world.violate("C9", id, f"attempts {grown:+} by {change.verb}")
    if change.verb == "renew" and (new.locked_until or at) < (old.locked_until or at):
        world.violate("C12", id, "a renewal shortened the lease")
    if change.verb == "reap" and (old.locked_until is None or old.locked_until >= at):
        world.violate("C12", id, "reaped before its lease had expired")
    if change.verb in ("exchange", "commit"):
        _check_outcome(world, change, old, new, grown)


def _check_outcome(world: World, change: Change, old: JobRecord, new: JobRecord, grown: int) -> None:
    """The outcome is what this claim's own run came to."""
    id, state = change.id, new.state
    line = world.runs.get((id, old.claim_seq))
    error = None if line is None else line.error
    cause = None if line is None else line.claim.interruption
    signal = find_signal(error)
    refund = state is State.PENDING or (
        state is State.FAILED and isinstance(signal, MustPreserveAttempt) and cause is None
    )
    if grown != (-1 if refund else 0):
        world.violate("C9", id, f"attempts {grown:+} at {state}")
    if state is State.PENDING:
        if line is not None and not isinstance(cause, ShuttingDown) and not world.all_processes[line.process].stops:
            world.violate("U3", id, f"handed back though it was not stopped (cause {cause!r})")
        return
    if line is None:
        world.violate("C10", id, f"{state} without a run")
        return
    if state is State.DONE:
        if line.ended is None or error is not None or cause is not None:
            world.violate("C10", id, f"done, but its run ended with {error!r}, cause {cause!r}")
    elif isinstance(cause, (LeaseLost, ShuttingDown)):
        world.violate("I1", id, f"{state} written for a run interrupted by {type(cause).__name__}")
    elif state is State.CANCELED:
        if not isinstance(signal, MustCancel):
            world.violate("C6", id, f"canceled by a run that ended with {error!r}")
    else:
        if not refund and (state is State.DEAD) != (
            old.attempts >= (world.jobs[id].max_attempts or 3) or (isinstance(signal, MustGiveUp) and cause is None)
        ):
            world.violate("C9", id, f"{state} with {old.attempts} attempts")
        _check_failure(world, id, new, line)


def _check_failure(world: World, id: UUID, new: JobRecord, line: Run) -> None:
    """A failure has something that failed, and says what."""
    cause = line.claim.interruption
    late = (new.last_error or "").startswith("MaxExecutionExceeded") and world.jobs[id].payload["do"] in WITH_EFFECT
    if cause is None and line.error is None and not line.callback_failed and not late:
        world.violate("C10", id, f"{new.state} though its run succeeded")
    if line.ended is None and not isinstance(cause, MaxExecutionExceeded):
        world.violate("C10", id, f"{new.state} before its run had ended")
    if new.last_error is None:
        world.violate("C9", id, f"{new.state} without a reason")


def _check_effects(world: World, id: UUID, last: JobRecord | None) -> None:
    if last is None or id not in world.jobs:
        return
    done, do = last.state is State.DONE, world.jobs[id].payload["do"]
    effects = [token for each, token in world.effects if each == id]
    if effects != ([last.claim_seq] if done and do in WITH_EFFECT else []):
        world.violate("C11", id, f"{last.state} with effects of claims {effects}")
    children = sum(
        change.old is None and world.jobs[change.id].payload["parent"] == str(id) for change in world.changes
    )
    if children != (1 if done and do in WITH_CHILD else 0):
        world.violate("C14", id, f"{last.state} with {children} children")


def _check_producers(world: World, history: dict[UUID, list[Change]]) -> None:
    ids: dict[str, set[UUID]] = defaultdict(set)
    for job, answer in world.answers:
        changes = history.get(answer.id)
        if not changes or changes[-1].new is None or not changes[-1].new.state.terminal:
            world.violate("C1", answer.id, "acknowledged, and not at its end")
        if answer.created != (answer.id == job.id):
            world.violate("C13", job.id, f"answered {answer}")
        if job.idempotency_key:
            ids[f"{job.topic} {job.idempotency_key}"].add(answer.id)
    for key, found in ids.items():
        if len(found) != 1:
            world.violate("C13", None, f"key {key} has {len(found)} jobs")


def _check_events(world: World) -> None:
    """What listeners heard is true, and they heard it once."""
    states = {"JobDone": State.DONE, "JobFailed": State.FAILED, "JobDead": State.DEAD}
    written = {(change.id, change.token, change.new.state) for change in world.changes if change.new is not None}
    for (kind, id, token), times in world.told.items():
        if times > 1:
            world.violate("V3", id, f"{kind} of claim {token} told {times} times")
        if (id, token, states[kind]) not in written:
            world.violate("V3", id, f"{kind} of claim {token} told, and not written")


def _check_cancels(world: World) -> None:
    """A running handler hears of a cancellation within a third of the lease, or of the fence when renewals fail."""
    for change in world.canceled:
        assert change.old is not None
        line = world.runs.get((change.id, change.old.claim_seq))
        if line is None or line.claim.interruption is None:
            continue
        process = world.all_processes[line.process]
        told = min(line.told or 1e9, line.ended or 1e9)
        if told == 1e9 or process.dead:
            continue
        calm = process.troubles.isdisjoint(range(int(change.at) - 3, int(told) + 3)) and not any(
            begun < told and change.at < over + LEASE for begun, over in (*process.main.stood, *process.keeper.stood)
        )
        if calm and told > max(change.at, line.started) + LEASE / 3 + MARGIN:
            world.violate("I3", change.id, f"canceled at {change.at:.3f}, told at {told:.3f}")
