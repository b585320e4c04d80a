"""Makes the deliveries that are shipped, `sample.jsonl`, the same at every run:

python -m examples.webhooks.sample >examples/webhooks/sample.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

COUNT = 360
MONDAY = datetime(2025, 3, 3, 8, tzinfo=UTC)
PEOPLE = (
    "Anna Weiss",
    "Борис Орлов",
    "Chidi Okafor",
    "Dina Haddad",
    "Émile Roux",
    "ファラ・木村",
    "Глеб Ким",
    "Hana Novák",
)
GOODS = ("kettle", "лампа", "notebook, ruled", "fil à plomb", "木の椅子", 'frame 24"', "tea ☕ 100 g", "rope\t10 m")
WORDS = ("late", "again", "please", "the", "parcel", "arrived", "broken", "спасибо", "thanks", "où", "est", "mon", "colis",
         "nobody", "answers", "since", "Tuesday", "очень", "красиво", "👍")  # fmt: skip
STEPS = ("checkout", "install", "lint", "types", "test", "build", "publish")


class Maker:
    """Draws deliveries; every draw comes from one seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311  chance that can be repeated is the point
        self._now = MONDAY

    def deliveries(self, count: int) -> Iterator[dict[str, Any]]:
        """So many deliveries, in the order of their time."""
        kinds: list[tuple[str, Callable[[], dict[str, Any]]]] = [
            ("order.placed", self._order),
            ("payment.settled", self._payment),
            ("parcel.moved", self._parcel),
            ("build.finished", self._build),
            ("alert.raised", self._alert),
            ("review.written", self._review),
            ("form.sent", self._form),
            ("stock.counted", self._stock),
        ]
        for number in range(1, count + 1):
            self._now += timedelta(seconds=self._chance.randint(1, 240))
            event, make = self._chance.choices(kinds, (20, 15, 20, 15, 10, 8, 10, 2))[0]
            yield {
                "id": f"dlv_{number:05}",
                "event": event,
                "sent_at": self._now.isoformat(),
                "sender": {
                    "shop": "Lantern & Sons",
                    "region": self._chance.choice(("eu-1", "eu-2", "ap-1")),
                    "version": 3,
                },
                "signature": f"{self._chance.getrandbits(256):064x}",
                "payload": make(),
            }

    def _order(self) -> dict[str, Any]:
        lines = [self._line() for _ in range(self._chance.choice((1, 1, 2, 3, 5, 9, 20)))]
        total = sum(line["count"] * line["cents"] for line in lines)
        return {"order": self._id("ord"), "buyer": self._person(), "lines": lines, "total_cents": total, "gift": False}

    def _line(self) -> dict[str, Any]:
        chance = self._chance
        return {"goods": chance.choice(GOODS), "count": chance.randint(1, 4), "cents": chance.randint(95, 25_000)}

    def _payment(self) -> dict[str, Any]:
        chance = self._chance
        return {
            "payment": self._id("pay"),
            "order": self._id("ord"),
            # Beyond what a double holds: it must come through bit for bit.
            "reference": chance.randint(10**20, 10**24),
            "amount": {"value": chance.randint(100, 10**7) / 100, "currency": chance.choice(("EUR", "RUB", "JPY"))},
            "fees": [round(chance.uniform(0.05, 9), 4) for _ in range(chance.randint(1, 3))],
            "risk": chance.random(),
        }

    def _parcel(self) -> dict[str, Any]:
        stops = [
            {"place": self._id("hub"), "at": (self._now - timedelta(hours=hours)).isoformat(), "signed": None}
            for hours in range(self._chance.randint(1, 8), 0, -1)
        ]
        return {
            "parcel": self._id("prc"),
            "to": self._person(),
            "stops": stops,
            "grams": self._chance.randint(40, 30_000),
        }

    def _build(self) -> dict[str, Any]:
        steps = [
            {
                "step": step,
                "seconds": round(self._chance.expovariate(1 / 20), 3),
                "log": self._text(self._chance.randint(5, 60)),
            }
            for step in STEPS[: self._chance.randint(2, len(STEPS))]
        ]
        return {
            "build": self._id("bld"),
            "branch": "main",
            "by": self._person(),
            "steps": steps,
            "ok": len(steps) == len(STEPS),
        }

    def _alert(self) -> dict[str, Any]:
        values = [round(self._chance.gauss(50, 20), 2) for _ in range(self._chance.randint(4, 30))]
        return {
            "alert": self._id("alr"),
            "metric": "disk.used",
            "values": values,
            "severity": self._chance.randint(1, 5),
        }

    def _review(self) -> dict[str, Any]:
        words = self._text(self._chance.randint(10, 240))
        return {
            "goods": self._chance.choice(GOODS),
            "by": self._person(),
            "stars": self._chance.randint(1, 5),
            "text": words,
        }

    def _form(self) -> dict[str, Any]:
        fields = {
            f"field_{number}": self._text(self._chance.randint(1, 12)) for number in range(self._chance.randint(2, 9))
        }
        return {"form": "contact", "from": self._person(), "fields": fields, "newsletter": None}

    def _stock(self) -> dict[str, Any]:
        counted = [{"shelf": self._id("shf"), **self._line()} for _ in range(self._chance.randint(25, 120))]
        return {"by": self._person(), "counted": counted}

    def _person(self) -> dict[str, str]:
        name = self._chance.choice(PEOPLE)
        return {"name": name, "account": self._id("acc")}

    def _text(self, words: int) -> str:
        return " ".join(self._chance.choice(WORDS) for _ in range(words))

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._chance.getrandbits(48):012x}"


def lines() -> Iterator[str]:
    """The file, line by line."""
    for delivery in Maker(seed=7).deliveries(COUNT):
        yield json.dumps(delivery, ensure_ascii=False, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    sys.stdout.buffer.writelines(line.encode() for line in lines())  # UTF-8 whatever the locale
