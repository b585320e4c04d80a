"""A mail server that misbehaves as real ones do: the outside world of the demo, in a process of its own.

    python -m examples.webhooks.mail_server --fd 3 --mailbox FOLDER --log FILE --refuse ADDRESS [--seed N]

What it does to the n-th try of a delivery depends on the seed, the delivery and n alone, never on the order of things.
A mail is durable in the mailbox (a Maildir) before it is accepted. Every misdeed is one line of the log.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import socket
from collections import Counter
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP

SHARES = {
    "temporary": 0.05,  # 451, try again later
    "dropped": 0.01,  # the connection breaks, the mail is not kept
    "lost_answer": 0.01,  # the mail is kept, the connection breaks before the 250: the sender cannot know
    "slow": 0.01,
}
SLOW = 4.0
"""Longer than the lease of the demo's worker: a lease is renewed while the work goes on."""
LATENCY = (0.02, 0.12)
REFUSED = "refused"


class Maildir:
    """Mails on disk, each of them durable once `keep` returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        for name in ("tmp", "new", "cur"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def keep(self, content: bytes) -> None:
        """Write, flush to the disk, then move to where mails are: none is ever seen half written."""
        name = f"{next(self._numbers):08}.{os.getpid()}.demo"
        draft = self._folder / "tmp" / name
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._folder / "new" / name)
        folder = os.open(self._folder / "new", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class MailServer:
    """Answers as an SMTP server does; aiosmtpd calls the `handle_` methods."""

    def __init__(self, mailbox: Maildir, log: Path, refuse: str, seed: str) -> None:
        self._mailbox = mailbox
        self._log = log
        self._refuse = refuse
        self._seed = seed
        self._tries: Counter[str] = Counter()

    async def handle_RCPT(  # noqa: N802  the name and the order are aiosmtpd's
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        """Refuse one address for ever."""
        if address == self._refuse:
            self._note(REFUSED, address)
            return f"550 5.1.1 <{address}>: no such mailbox here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  as above
        """Keep the mail, unless this is one of those days."""
        head = BytesHeaderParser().parsebytes(envelope.content)
        delivery, id = str(head["X-Delivery"]), str(head["Message-ID"])
        chance = random.Random(f"{self._seed}:{delivery}:{self._tries[delivery]}")  # noqa: S311  chance to replay
        self._tries[delivery] += 1
        misdeed = _choose(chance)
        await asyncio.sleep(chance.uniform(*LATENCY))
        if misdeed is not None:
            self._note(misdeed, id)
        if misdeed == "temporary":
            return "451 4.3.0 mailbox busy, try again later"
        if misdeed == "dropped":
            server.transport.abort()
            return "421 4.3.2 never heard: the connection is gone"
        if misdeed == "slow":
            await asyncio.sleep(SLOW)
        await asyncio.to_thread(self._mailbox.keep, envelope.content)
        if misdeed == "lost_answer":
            server.transport.abort()
        return "250 2.0.0 kept"

    def _note(self, misdeed: str, id: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"misdeed": misdeed, "id": id}) + "\n")


def _choose(chance: random.Random) -> str | None:
    drawn = chance.random()
    for misdeed, share in SHARES.items():
        drawn -= share
        if drawn < 0:
            return misdeed
    return None


async def serve(server: MailServer, listener: socket.socket) -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)
    listening = await loop.create_server(
        lambda: SMTP(server, hostname="mail.example.org", ident="a mail server", loop=loop), sock=listener, backlog=1024
    )
    await ended.wait()
    listening.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.webhooks.mail_server")
    parser.add_argument("--fd", type=int, required=True, help="a listening socket, inherited")
    parser.add_argument("--mailbox", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--refuse", required=True, metavar="ADDRESS")
    parser.add_argument("--seed", default="3")
    options = parser.parse_args()
    server = MailServer(Maildir(options.mailbox), options.log, options.refuse, options.seed)
    asyncio.run(serve(server, socket.socket(fileno=options.fd)))


if __name__ == "__main__":
    main()
