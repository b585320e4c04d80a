"""Typed payloads: what goes in as a type comes back as it, and what does not fit is named by its place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import pytest

from brooq import Claim, ConfigError, Job, KindOptions, Lease, PayloadError, Queue
from brooq.engine.reading import reading_of
from brooq.testing import MemoryStore
from brooq.vocabulary.codec import codec_of
from brooq.vocabulary.payload import encode

msgspec = pytest.importorskip("msgspec", reason="an extra of developers: make bin-deps")
pydantic = pytest.importorskip("pydantic", reason="an extra of developers: make bin-deps")

Cents = NewType("Cents", int)


class Colour(Enum):
    """Texts."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """Numbers."""

    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    """A row."""

    x: float
    y: float


@dataclass
class Address:
    """Inside of others."""

    address: str
    name: str | None = None


@dataclass
class Email:
    """One of everything."""

    to: list[Address]
    at: datetime
    id: UUID
    price: Decimal
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    day: date = date(2027, 1, 1)
    hour: time = time(12, 30)
    wait: timedelta = timedelta(seconds=1.5)
    point: Point = Point(1.0, -0.5)  # noqa: RUF009  it is a tuple
    tags: frozenset[str] = frozenset()
    pair: tuple[int, str] = (1, "a")
    many: tuple[int, ...] = ()
    by_key: dict[str, list[int]] = field(default_factory=dict)
    by_number: Mapping[int, Colour] = field(default_factory=dict)
    raw: bytes = b""
    path: Path = Path("x")
    kind: Literal["a", 1] = "a"
    cents: Cents = Cents(0)
    anything: Any = None
    either: int | str | None = None


@dataclass
class Tree:
    """Refers to itself."""

    name: str
    parts: list[Tree] = field(default_factory=list)


class Dict(TypedDict):
    """A dict with names."""

    to: str
    copies: NotRequired[int]


class Struct(msgspec.Struct):  # type: ignore[misc,name-defined]
    """msgspec's."""

    to: list[str]
    at: datetime | None = None


class Model(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    """pydantic's."""

    to: list[str]
    at: datetime | None = None


@dataclass
class Mixed:
    """A dataclass that holds both."""

    struct: Struct
    model: Model


class Celsius:
    """Something of the consumer's, with a codec of its own."""

    def __init__(self, degrees: float) -> None:
        """Degrees."""
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        """By value."""
        return isinstance(other, Celsius) and other.degrees == self.degrees

    __hash__ = None  # type: ignore[assignment]


class CelsiusCodec:
    """Its codec."""

    def decode(self, source: str) -> Celsius:
        """A number."""
        return Celsius(float(source))

    def encode(self, value: Celsius) -> Any:
        """A number."""
        return value.degrees


Celsius.__brooq_codec__ = CelsiusCodec()  # type: ignore[attr-defined]

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
FULL = Email(
    [Address("a@example.org", "Anna"), Address("b@example.org")], NOW, UUID(int=7), Decimal("0.10"), Colour.BLUE, Level.HIGH,
    tags=frozenset({"x"}), many=(1, 2), by_key={"k": [1]}, by_number={3: Colour.RED}, raw=b"\0\xff", kind=1,
    anything={"a": [None]}, either="text",
)  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        FULL,
        Tree("root", [Tree("leaf"), Tree("twig", [Tree("bud")])]),
        Struct(["a"], NOW),
        Model(to=["a"], at=NOW),
        Mixed(Struct(["a"]), Model(to=["b"])),
        Celsius(21.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_typed_payload_comes_back_as_it_went_in(value: Any) -> None:
    assert codec_of(type(value)).decode(encode(value)) == value


def test_a_typed_dict_and_plain_types_are_read_too() -> None:
    assert codec_of(Dict).decode('{"to": "x", "more": 1}') == {"to": "x", "more": 1}
    assert codec_of(list[int]).decode("[1, 2]") == [1, 2]
    assert codec_of(dict[str, Address]).decode('{"a": {"address": "x"}}') == {"a": Address("x")}
    assert codec_of(float).decode("3") == 3.0
    assert codec_of(Cents).decode("3") == 3
    assert codec_of(None).decode("null") is None


MINIMAL = '{"to": [], "at": "2027-01-01T12:00:00Z", "id": "00000000-0000-0000-0000-000000000007", "price": "1"'


@pytest.mark.parametrize(
    ("kind", "source", "said"),
    [
        (Email, "[]", "$: expected Email, got list"),
        (Email, "{}", "$.to: missing, expected list[tests.vocabulary.test_codec.Address]"),
        (Email, MINIMAL.replace("[]", '[{"address": "a"}, {"address": "b"}, {"address": 7}]') + "}",
         "$.to[2].address: expected str, got int"),
        (Email, MINIMAL.replace("2027-01-01", "tomorrow") + "}", "$.at: expected datetime, got str"),
        (Email, MINIMAL.replace("-000000000007", "") + "}", "$.id: expected UUID, got str"),
        (Email, MINIMAL + ', "colour": "green"}', "$.colour: expected 'red' | 'blue', got str"),
        (Email, MINIMAL + ', "level": true}', "$.level: expected 1 | 2, got bool"),
        (Email, MINIMAL + ', "cents": true}', "$.cents: expected int, got bool"),
        (Email, MINIMAL + ', "cents": null}', "$.cents: expected int, got null"),
        (Email, MINIMAL + ', "pair": [1]}', "$.pair: expected list of 2, got list"),
        (Email, MINIMAL + ', "by_key": {"k": [1, "2"]}}', "$.by_key.k[1]: expected int, got str"),
        (Email, MINIMAL + ', "by_number": {"x": "red"}}', "$.by_number.x: expected int, got str"),
        (Email, MINIMAL + ', "raw": "not base64!"}', "$.raw: expected bytes, got str"),
        (Email, MINIMAL + ', "kind": 2}', "$.kind: expected 'a' | 1, got int"),
        (Email, MINIMAL + ', "either": []}', "$.either: expected int | str | null, got list"),
        (Tree, '{"name": "a", "parts": [{"name": "b", "parts": [{}]}]}', "$.parts[0].parts[0].name: missing, expected str"),
        (Dict, '{"copies": 1}', "$.to: missing, expected str"),
        (Dict, '{"to": "x", "copies": "1"}', "$.copies: expected int, got str"),
        (Struct, '{"to": ["a", 2]}', "$.to[1]: expected str, got int"),
        (Model, '{"to": ["a", 2]}', "$.to[1]: input should be a valid string, got int"),
        (Model, "{}", "$.to: field required"),
        (Mixed, '{"struct": {"to": [1]}, "model": {"to": []}}', "$.struct.to[0]: expected str, got int"),
        (Mixed, '{"struct": {"to": []}, "model": {"to": [1]}}', "$.model.to[0]: input should be a valid string, got int"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_by_its_place_and_never_quoted(kind: Any, source: str, said: str) -> None:
    with pytest.raises(PayloadError) as caught:
        codec_of(kind).decode(source)
    assert str(caught.value) == said
    assert said.startswith(caught.value.place + ":")


def test_what_a_type_itself_refuses_is_a_misfit_too() -> None:
    @dataclass
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below zero")

    with pytest.raises(PayloadError, match="below zero"):
        codec_of(Positive).decode('{"number": -1}')


def test_what_json_cannot_hold_is_refused_with_its_place_inside_of_a_type() -> None:
    @dataclass
    class Bad:
        inner: dict[str, object]

    with pytest.raises(PayloadError, match=r"\$\.inner\.x"):
        encode(Bad({"x": object()}))
    circular = Tree("a")
    circular.parts = [circular]
    with pytest.raises(PayloadError, match="deep"):
        encode(circular)


def test_outside_of_a_type_nothing_is_turned_into_text() -> None:
    """A dict with a datetime would come back with a text in its place."""
    for value in ({"at": NOW}, [UUID(int=1)], {"set": {1}}):
        with pytest.raises(PayloadError):
            encode(value)


# --- handlers ---


async def typed(claim: Claim[Email]) -> None: ...
async def quoted(claim: "Claim[Email]") -> None: ...  # noqa: UP037
def plain(claim: Claim[dict[str, int]]) -> None: ...
async def bare(claim: Claim) -> None: ...
async def anything(claim: Claim[Any]) -> None: ...
async def unannotated(claim) -> None: ...  # type: ignore[no-untyped-def]


class Sender:
    """An object that handles."""

    async def __call__(self, claim: Claim[Email]) -> None: ...
    async def method(self, claim: Claim[Email]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "reads"),
    [
        (typed, True), (quoted, True), (plain, True), (Sender(), True), (Sender().method, True),
        (bare, False), (anything, False), (unannotated, False), (lambda claim: None, False), (print, False),
    ],
)  # fmt: skip
def test_the_annotation_of_a_handler_says_how_its_payload_is_read(handler: Callable[[Claim], Any], reads: bool) -> None:
    reading = reading_of(handler)
    assert reading.typed is reads
    if reads:
        claim = Claim(
            id=UUID(int=1), topic="t", payload="[]", attempt=1, max_attempts=1, token=1, lease=Lease("w", NOW)
        )
        with pytest.raises(PayloadError):
            reading.open(claim)


def test_an_annotation_from_inside_a_function_is_found() -> None:
    @dataclass
    class Local:
        x: int

    async def handler(claim: Claim[Local]) -> None:
        assert isinstance(claim.payload, Local)

    assert reading_of(handler).typed


def test_an_annotation_that_cannot_be_used_is_refused_at_registration() -> None:
    async def unknown(claim: Claim[Nowhere]) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Cannot be looked up."""

    async def unreadable(claim: Claim[Callable[[], None]]) -> None:
        """JSON has no functions."""

    for handler, said in ((unknown, "Nowhere"), (unreadable, "cannot be read as")):
        with pytest.raises(ConfigError, match=said):
            Queue(MemoryStore()).register_kind("t", handler, KindOptions())


def test_a_typed_job_is_encoded_when_it_is_enqueued() -> None:
    assert encode(Job("t", Address("x")).payload) == '{"address":"x","name":null}'


def test_neither_msgspec_nor_pydantic_is_imported_by_brooq() -> None:
    code = (
        "import sys; sys.modules['msgspec'] = sys.modules['pydantic'] = None\n"
        "import dataclasses, brooq\n"
        "from brooq.vocabulary.codec import codec_of\n"
        "from brooq.vocabulary.payload import encode\n"
        "A = dataclasses.make_dataclass('A', [('x', int)])\n"
        "assert codec_of(A).decode(encode(A(1))) == A(1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
