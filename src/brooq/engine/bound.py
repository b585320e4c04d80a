"""Log records bound to the job whose handler makes them."""

from __future__ import annotations

import logging

from brooq.vocabulary.claim import current_claim


class JobFilter(logging.Filter):
    """Gives every record made inside a handler the fields `job`, `topic` and `attempt`, as the engine's own have them.

    Add it to handlers of `logging`, not to loggers: those ask their filters only for their own records.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True; a field that the record has already stays."""
        claim = current_claim()
        if claim is not None and not hasattr(record, "job"):
            record.job = str(claim.id)
            record.topic = claim.topic
            record.attempt = claim.attempt
        return True
