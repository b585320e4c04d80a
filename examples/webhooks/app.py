"""The application that the worker runs: `brooq worker --app examples.webhooks.app:queue`.

Two kinds: `webhook.received` decides whom to tell and chains the mail in the transaction that closes it;
`email.send` sends that mail. Neither knows that its worker may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import smtplib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from brooq import Claim, Config, Event, Job, JobClaimed, KindOptions, MustGiveUp, Queue
from brooq.postgres import PostgresStore, open_pool

RECEIVED = "webhook.received"
SEND = "email.send"
SLOTS = 32
GONE = "former.colleague@example.org"
"""Subscribed once, and no longer known to the mail server."""
TEAM = [f"{name}@example.org" for name in ("anna", "boris", "chidi", "dina", "emil", "farah", "gleb", "hana")]
SMTP_PATIENCE = 20.0
CONFIG = Config(
    workers=SLOTS,
    poll_interval=0.1,
    lease=3,  # short, so that one sees how soon the jobs of a killed worker come back
    reaper_period=0.5,
    shutdown_grace=5,
)
SENDING = KindOptions(max_attempts=8, attempt_timeout=30, backoff_base=0.3, backoff_max=3)


async def receive(claim: Claim) -> None:
    """Decide whom to tell. The mail becomes a job in the very transaction that closes this one: both, or neither."""
    number, key, body = claim.payload["number"], claim.payload["delivery"], claim.payload["body"]
    mail = {"number": number, "to": recipient(number), "subject": subject(number, body), "text": excerpt(body)}
    claim.chain(Job(SEND, mail, idempotency_key=key))


async def send(claim: Claim) -> None:
    """Send one mail. It may be sent twice, never lost: the answer to a mail that was accepted can be lost on its way,
    so the Message-ID is made from the job's id, and whoever receives both can tell that they are one."""
    mail = claim.payload
    try:
        await asyncio.get_running_loop().run_in_executor(_threads, _deliver, compose(f"{claim.id}", mail))
    except smtplib.SMTPRecipientsRefused as refused:
        code, reason = refused.recipients[mail["to"]]
        raise _judged(code, reason) from None
    except smtplib.SMTPResponseException as answer:
        raise _judged(answer.smtp_code, answer.smtp_error) from None
    # A lost connection (smtplib.SMTPServerDisconnected, OSError) is an ordinary error: the attempt failed, try again.


def recipient(number: int) -> str:
    """Who wants to hear of this delivery: one in a hundred goes to somebody who has left."""
    return GONE if number % 100 == 50 else TEAM[number % len(TEAM)]


def subject(number: int, body: dict[str, Any]) -> str:
    """One line for a header, whatever the sender wrote."""
    event = "".join(letter if letter.isprintable() else " " for letter in str(body.get("event", "webhook")))
    return f"{' '.join(event.split())[:80]} (delivery {number})"


def excerpt(body: dict[str, Any], limit: int = 2000) -> str:
    """The delivery for human eyes."""
    shown = json.dumps(body, ensure_ascii=False, indent=2)
    return shown if len(shown) <= limit else f"{shown[:limit]}\n…"


def compose(id: str, mail: dict[str, Any]) -> EmailMessage:
    """The mail of a job."""
    message = EmailMessage()
    message["Message-ID"] = f"<{id}@brooq.example>"
    message["From"] = "webhooks@example.org"
    message["To"] = mail["to"]
    message["Subject"] = mail["subject"]
    message["X-Delivery"] = str(mail["number"])
    message.set_content(mail["text"])
    return message


class MailRefused(Exception):
    """The mail server said no, for now."""


def _judged(code: int, reason: bytes | str) -> Exception:
    """5xx: no further attempt can help. Anything else: an ordinary error, retried with a growing delay."""
    words = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
    return MustGiveUp(f"{code} {words}") if 500 <= code < 600 else MailRefused(f"{code} {words}")


# smtplib blocks, so it runs in threads: one for each slot, or mails would wait for each other.
_threads = ThreadPoolExecutor(SLOTS, thread_name_prefix="smtp")


def _deliver(message: EmailMessage) -> None:
    host, _, port = os.environ["DEMO_SMTP"].rpartition(":")
    with smtplib.SMTP(host, int(port), local_hostname="worker.example.org", timeout=SMTP_PATIENCE) as server:
        server.send_message(message)


@asynccontextmanager
async def queue() -> AsyncIterator[Queue]:
    """The queue of the worker process, with whatever it needs opened and closed around it."""
    async with open_pool(os.environ["DATABASE_URL"]) as pool:
        found = Queue(PostgresStore(pool), CONFIG)
        found.register_kind(RECEIVED, receive)
        found.register_kind(SEND, send, SENDING)
        with journal(Path(os.environ["DEMO_JOURNAL"])) as note:
            found.listen(note)
            yield found


@contextmanager
def journal(path: Path) -> Iterator[Callable[[Event], None]]:
    """A listener that writes down every claim, unbuffered: what is written survives the death of this process."""
    with path.open("ab", buffering=0) as file:

        def note(event: Event) -> None:
            if isinstance(event, JobClaimed):
                line = {"id": str(event.id), "topic": event.topic, "attempt": event.attempt, "waited": event.waited}
                file.write(json.dumps(line).encode() + b"\n")

        yield note
