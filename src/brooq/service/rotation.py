"""Reading the tokens anew under way (rule S3): in the process that holds the surface, and in those beside it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from types import FrameType

from brooq.service.logging import Masker
from brooq.service.settings import load
from brooq.service.token import Tokens
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")


class Rotation:
    """Reads HTTP_TOKEN and HTTP_READ_TOKEN at SIGHUP, from `.env` and credentials. With none, or a wrong one, those
    that were stay."""

    def __init__(self, masker: Masker, tokens: Tokens | None, then: Callable[[], None] = lambda: None) -> None:
        """`tokens` are those of this process's surface. None: it has none, hides new tokens all the same, and leaves the
        telling to the process that has. `then` is called after every reading."""
        self._masker = masker
        self._tokens = tokens
        self._then = then

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read in the loop whenever the process gets SIGHUP; in the main thread. On a terminal it means that the terminal is
        gone, and ends the process as it always did."""
        if sys.stderr.isatty():
            return

        def hear(number: int, frame: FrameType | None) -> None:
            try:
                loop.call_soon_threadsafe(self.read)
            except RuntimeError:
                pass  # the loop is closed: the end is near anyway

        # By itself it would end the process, and `kill -HUP` is how the world asks for secrets to be read anew.
        signal.signal(signal.SIGHUP, hear)

    def read(self) -> None:
        """Read now."""
        try:
            settings = load()
        except ConfigError as error:
            if self._tokens is not None:
                log.error(text("process.tokens_kept", reason="; ".join(error.problems)))  # noqa: TRY400  the text says all
            return
        finally:
            self._then()
        tokens, reading = settings.http_token, settings.http_read_token
        self._masker.add(*tokens, *reading)
        if self._tokens is None:
            return
        if not (tokens or reading):
            log.warning(text("process.tokens_kept", reason=text("process.no_token")))
            return
        self._tokens.replace(tokens, reading)
        log.info(text("process.tokens_read", count=len(tokens) + len(reading)))
