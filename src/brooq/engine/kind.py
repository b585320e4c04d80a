"""A kind: what is registered for a topic."""

from __future__ import annotations

from dataclasses import dataclass

from brooq.vocabulary.claim import Handler
from brooq.vocabulary.kind import ResolvedOptions
from brooq.vocabulary.steering import Limits


@dataclass(frozen=True, slots=True)
class Kind:
    """A topic's handler with its options."""

    topic: str
    handler: Handler
    options: ResolvedOptions
    limits: Limits | None = None
