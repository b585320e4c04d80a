"""Results: medians with ranges, and runs of parts that are merged but never compared with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.ratio import RATIOS, judged
from bench.results import Run, Sample, merged, read, write

FACTS = {"machine": {"cores": 2}, "versions": {"python": "3.11"}, "command": "make bench"}


def run(id: str, *samples: Sample) -> Run:
    """A run that has taken these."""
    made = Run(id, dict(FACTS))
    for sample in samples:
        made.add(sample)
    return made


def drained(system: str, config: str, rate: float) -> Sample:
    """A drain."""
    return Sample(system, config, "drain", rate, "jobs/s", 50.0, 80.0)


EMPTY: dict[str, Any] = read(Path("there is no such file"))


def test_rounds_become_a_median_with_its_range() -> None:
    (row,) = run("a", *(drained("brooq", "10 slots", rate) for rate in (30.0, 10.0, 20.0))).rows()
    assert (row["median"], row["min"], row["max"], row["runs"]) == (20.0, 10.0, 30.0, 3)
    assert (row["client_cpu"], row["server_cpu"], row["run"]) == (50.0, 80.0, "a")


def test_a_later_run_takes_the_place_of_the_same_things_and_leaves_the_rest() -> None:
    first = merged(EMPTY, run("a", drained("brooq", "10 slots", 1.0), drained("pgqueuer", "batch 100", 2.0)))
    both = merged(first, run("b", drained("brooq", "10 slots", 3.0)))
    assert {(row["system"], row["median"], row["run"]) for row in both["results"]} == {
        ("brooq", 3.0, "b"),
        ("pgqueuer", 2.0, "a"),
    }
    assert [each["id"] for each in both["runs"]] == ["a", "b"]


def test_a_run_of_which_nothing_is_left_is_forgotten() -> None:
    first = merged(EMPTY, run("a", drained("brooq", "10 slots", 1.0)))
    assert [each["id"] for each in merged(first, run("b", drained("brooq", "10 slots", 3.0)))["runs"]] == ["b"]


def test_what_could_not_be_measured_takes_the_place_of_an_older_figure() -> None:
    first = merged(EMPTY, run("a", drained("awa", "default", 1.0)))
    failed = run("b")
    failed.missing["drain", "awa", "default"] = "no environment"
    document = merged(first, failed)
    assert document["results"] == []
    assert [row["reason"] for row in document["not_run"]] == ["no environment"]


def test_a_figure_takes_the_place_of_an_older_failure() -> None:
    failed = run("a")
    failed.missing["pickup", "awa", "default"] = "no answer"
    document = merged(merged(EMPTY, failed), run("b", Sample("awa", "default", "pickup p50", 1.0, "ms")))
    assert document["not_run"] == []


def test_the_file_keeps_everything(tmp_path: Path) -> None:
    document = merged(EMPTY, run("a", drained("brooq", "10 slots", 1.0)))
    write(tmp_path / "deep" / "latest.json", document)
    assert read(tmp_path / "deep" / "latest.json") == document


def ratio(document: dict[str, Any], title: str) -> tuple[float | None, str]:
    """What was reached, and in which run."""
    (found,) = [(reached, where) for each, reached, where in judged(document) if each.title == title]
    return found


TITLE = "drain, 500 slots, against PgQueuer's best"


def test_a_ratio_takes_the_best_of_both_sides() -> None:
    document = merged(
        EMPTY,
        run(
            "a",
            drained("brooq", "500 slots, psycopg", 40.0),
            drained("brooq", "500 slots, asyncpg", 60.0),
            drained("brooq", "10 slots, prefetch 500, asyncpg", 90.0),
            drained("pgqueuer", "default (batch 10)", 5.0),
            drained("pgqueuer", "batch 500, pool of 4", 20.0),
        ),
    )
    assert ratio(document, TITLE) == (3.0, "a")


def test_a_ratio_never_compares_two_runs() -> None:
    first = merged(EMPTY, run("a", drained("pgqueuer", "batch 100", 20.0)))
    assert ratio(merged(first, run("b", drained("brooq", "500 slots, psycopg", 60.0))), TITLE) == (None, "")


@pytest.mark.parametrize(("reached", "holds"), [(9.9, True), (10.0, True), (10.1, False)])
def test_a_delay_must_not_be_longer_than_its_bound(reached: float, holds: bool) -> None:
    (found,) = [each for each in RATIOS if each.title == "steady 500/s, p99"]
    assert found.holds(reached) is holds


def test_no_two_ratios_have_one_title() -> None:
    titles = [each.title for each in RATIOS]
    assert len(titles) == len(set(titles))
