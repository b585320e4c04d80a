"""Where the HTTP surface listens: on loopback alone (requirement O3)."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import Any

from brooq.vocabulary.error import BrooqError
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import printable

_V4 = IPv4Network("127.0.0.0/8")
_V6 = IPv6Address("::1")
_ADDRESS = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([0-9]{1,5})", re.ASCII)
MAX_PORT = 65535
_BACKLOG = 128


class AddressError(BrooqError, ValueError):
    """The address is malformed, or not one of loopback."""


class ListenError(BrooqError):
    """The address is right, but listening there failed."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by number or `localhost`, and a port; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """As it is written in HTTP_ADDR."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(value: str) -> Address:
    """`127.0.0.1:8090`, `[::1]:8090` or `localhost:8090`. Raises AddressError for anything else."""
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match.group(3)) > MAX_PORT:
        raise AddressError(text("surface.address", value=printable(repr(value[:80]))))
    bracketed, plain, port = match.groups()
    host = plain if bracketed is None else bracketed
    # Brackets are for IPv6 alone: `[localhost]` is no address that anybody could be told.
    named = bracketed is None and host.lower() == "localhost"
    if not named and not is_loopback(host):
        raise AddressError(text("surface.off_loopback", host=printable(repr(host[:80]))))
    return Address(host.lower(), int(port))


def is_loopback(host: str) -> bool:
    """Whether this is a number of 127.0.0.0/8 or ::1. Not `ip_address(…).is_loopback`, whose word on addresses that map
    IPv4 into IPv6 differs between versions of Python."""
    try:
        number = ip_address(host)
    except ValueError:
        return False
    if isinstance(number, IPv4Address):
        return number in _V4
    return number.scope_id is None and number == _V6


def _refuse_open(listener: socket.socket) -> None:
    host = str(listener.getsockname()[0])
    if not is_loopback(host):
        raise AddressError(text("surface.off_loopback", host=host))


def listen(address: Address, resolve: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> socket.socket:
    """A socket that listens there. Raises AddressError and ListenError.

    `localhost` counts only when every address it stands for is loopback; what was bound is looked at once more.
    """
    try:
        found = resolve(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ListenError(text("surface.unresolved", host=address.host, reason=error.strerror or error)) from None
    for *_, place in found:
        if not is_loopback(str(place[0])):
            raise AddressError(text("surface.off_loopback", host=f"{address.host} ({place[0]})"))
    family, kind, protocol, _, place = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        _refuse_open(listener)
        # At once: only a listening socket keeps others from binding the same port.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        key = "surface.taken" if error.errno == errno.EADDRINUSE else "surface.unbound"
        raise ListenError(text(key, address=address, reason=error.strerror or error)) from None
    except BaseException:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
