"""The surface listens on loopback and nowhere else (requirement O3)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.service.brooq_process import inside

from brooq.service.loopback import Address, AddressError, ListenError, listen, parse


@pytest.mark.security("S1")
@pytest.mark.parametrize(
    "value",
    [
        "0.0.0.0:8090", "[::]:8090", ":8090", "8090", "", "*:8090", "192.168.1.10:8090", "10.0.0.1:8090",
        "[::ffff:10.0.0.1]:8090", "[::ffff:127.0.0.1]:8090", "[fe80::1]:8090", "[::1%lo]:8090", "::1:8090",
        "[localhost]:8090", "localhost", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http",
        "127.1:8090", "2130706433:8090", "0x7f000001:8090", "0177.0.0.1:8090", "127.0.0.1.:8090", "127.0.0.256:8090",
        "128.0.0.1:8090", "localhost.evil.example:8090", "example.org:8090", "127.0.0.1:80 90", "127.0.0.1:８０９０",
        "http://127.0.0.1:8090", "user@127.0.0.1:8090", "127.0.0.1:8090\n", "\udcff:1",
    ],
)  # fmt: skip
def test_everything_off_loopback_is_refused_in_one_line(value: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse(value)
    message = str(caught.value)
    assert "\n" not in message
    message.encode()


@pytest.mark.security("S1")
@pytest.mark.parametrize(
    "value",
    ["0.0.0.0:8090", "[::]:8090", ":8090", "8090", "*:8090", "192.168.1.10:8090", "10.0.0.1:8090", "172.16.0.1:80",
     "[::ffff:10.0.0.1]:8090", "[::ffff:127.0.0.1]:8090", "[fe80::1]:8090", "[2001:db8::1]:80", "127.0.0.1:65536",
     "127.0.0.1:http", "2130706433:8090", "0x7f000001:8090", "0177.0.0.1:8090", "localhost.evil.example:8090",
     "example.org:8090", "http://127.0.0.1:8090", "169.254.169.254:80", "255.255.255.255:1"],
)  # fmt: skip
def test_a_worker_off_loopback_does_not_start_and_says_so_in_one_line(value: str, tmp_path: Path) -> None:
    done = inside("worker", dsn="postgresql://127.0.0.1:1/x", cwd=tmp_path, HTTP_ADDR=value)
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if "HTTP_ADDR" in line]
    assert len(told) == 1
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("127.0.0.1:8090", Address("127.0.0.1", 8090)),
        ("127.8.9.10:0", Address("127.8.9.10", 0)),
        ("[::1]:8090", Address("::1", 8090)),
        ("LocalHost:80", Address("localhost", 80)),
    ],
)
def test_loopback_is_taken(value: str, address: Address) -> None:
    assert parse(value) == address
    assert parse(str(address)) == address


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost"])
def test_a_bound_socket_is_on_loopback_and_listens(host: str) -> None:
    with listen(Address(host, 0)) as listener:
        place = listener.getsockname()
        assert place[0].startswith("127.") or place[0] == "::1"
        with socket.create_connection(place[:2], timeout=5):
            pass


def test_a_taken_port_is_told() -> None:
    with listen(Address("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port} is taken"):
            listen(Address("127.0.0.1", port))


def test_a_name_that_leads_elsewhere_is_refused_at_the_bind() -> None:
    # An address that `parse` would never make: what is bound is looked at all the same.
    with pytest.raises(AddressError):
        listen(Address("0.0.0.0", 0))  # noqa: S104  that is what is refused


def test_every_address_of_a_name_has_to_be_loopback() -> None:
    def answer(*_: object, **__: object) -> list[object]:
        stream = socket.SOCK_STREAM
        return [(socket.AF_INET, stream, 6, "", ("127.0.0.1", 0)), (socket.AF_INET, stream, 6, "", ("10.0.0.1", 0))]

    with pytest.raises(AddressError, match=r"10\.0\.0\.1"):
        listen(Address("localhost", 0), resolve=answer)
