"""What may be said about a DSN: never its password. libpq quotes a malformed DSN, secrets and all, in its errors."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import unquote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from brooq.vocabulary.message import text

MASK = "***"

# `scheme://user:secret@`; libpq itself sometimes quotes it back with one slash or none. A secret may hold an unencoded
# '@' or a blank, so the match is greedy: hiding a host is better than showing half of a password.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s:/@?#]*):(\S*@|[^\n]*@)")
_BARE = re.compile(r"""((?:^|(?<=[\s"'(/]))[^\s:/@?#"'(]+):(?!/)\S+@""")
# `password=secret`, `password = 'two words'` (an unclosed quote included), `?password=secret&…`; and as a mapping shows
# it, `'password': 'secret'`, which is how other drivers print what they connect with.
_PAIR = re.compile(
    r"""\b((?:ssl|pg)?password|passwd|pwd)(\s*=\s*|['"]\s*:\s*)('(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|[^\s&]+)""",
    re.IGNORECASE,
)
# The password as it stands in a URI, up to the last '@': the place to look for pieces that an error quotes alone.
_SECRET = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@?#]*:(.*)@", re.DOTALL)


def mask(message: str, dsn: str = "") -> str:
    """The message with every password in it replaced by ***: in URIs, in key=value pairs, in query strings.

    Given the `dsn` that the message speaks of, its password is hidden wherever it stands, decoded or in pieces.
    """
    message = _URI.sub(rf"\1:{MASK}@", message)
    message = _BARE.sub(rf"\1:{MASK}@", message)
    message = _PAIR.sub(rf"\1\2{MASK}", message)
    for secret in sorted(_secrets(dsn), key=len, reverse=True):
        message = message.replace(secret, MASK)
    return message


def describe(dsn: str) -> str:
    """Where a DSN leads, for messages: "host:port/dbname as user", with libpq's environment and defaults.

    Several hosts are joined by commas. A malformed DSN gets a fixed text, since no part of it can be trusted.
    """
    try:
        values = {**_defaults(), **{key: str(value) for key, value in conninfo_to_dict(dsn).items()}}
    except psycopg.Error:
        return text("dsn.malformed")
    hosts = (values.get("host") or values.get("hostaddr") or "localhost").split(",")
    ports = (values.get("port") or "5432").split(",")
    ports += ports[-1:] * (len(hosts) - len(ports))
    user = values.get("user") or "?"
    places = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    return mask(text("dsn.place", places=places, dbname=values.get("dbname") or user, user=user), dsn)


def unverified(dsn: str) -> str | None:
    """The `sslmode` of a DSN when it leads off this machine and lets anybody pose as the database; None when all is well.

    Only `verify-full` compares the name of the host with that of the certificate.
    """
    try:
        values = {**_defaults(), **{key: str(value) for key, value in conninfo_to_dict(dsn).items()}}
    except psycopg.Error:
        return None
    hosts = (values.get("hostaddr") or values.get("host") or "localhost").split(",")
    if all(_is_local(host) for host in hosts):
        return None
    mode = values.get("sslmode") or "prefer"
    return None if mode == "verify-full" else mode


def _is_local(host: str) -> bool:
    # An empty host, a folder and an abstract socket are sockets of this machine.
    if not host or host[0] in "/@" or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _defaults() -> dict[str, str]:
    found = {}
    for option in pq.Conninfo.get_defaults():
        if option.val is not None:
            found[option.keyword.decode()] = option.val.decode("utf-8", "replace")
    return found


def _secrets(dsn: str) -> set[str]:
    secrets: set[str] = set()
    if match := _SECRET.match(dsn):
        raw = match.group(1)
        # An unencoded '/', '?', '#', ':' or '@' in a password makes libpq take its pieces for a port or a database.
        secrets |= {raw, unquote(raw), *re.split(r"[/?#:@]", raw)}
    for match in _PAIR.finditer(dsn):
        raw = match.group(3).strip("'\"")
        secrets |= {raw, unquote(raw)}
    # One or two characters would blacken the whole text; the patterns above catch them in their usual places.
    return {secret for secret in secrets if len(secret) > 2}
