"""Just enough of PromQL to compare expressions with what a worker exposes: names, matchers and groupings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

TARGET = frozenset({"job", "instance"})
"""The labels that Prometheus itself puts on what it scrapes."""
OWN = {"up": TARGET, "ALERTS": TARGET | {"alertname", "alertstate", "severity"}}
"""The series that Prometheus itself makes."""

_SELECTOR = re.compile(r"\b(?P<name>brooq_\w+|up|ALERTS)\b(?!\s*\()(?:\{(?P<matchers>[^}]*)\})?")
_MATCHER = re.compile(r'(?P<label>\w+)\s*(?P<kind>=~|!~|!=|=)\s*"(?P<value>[^"]*)"')
_GROUPING = re.compile(r"\b(?P<word>by|on|without|ignoring|group_left|group_right)\s*\((?P<labels>[^)]*)\)")

Series = Mapping[str, Mapping[str, frozenset[str]]]
"""What is exposed: sample name to label to the values it has."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric with its matchers, as (label, values): alternatives of a regular expression are values each."""

    name: str
    matchers: tuple[tuple[str, tuple[str, ...]], ...]


def selectors(expression: str) -> list[Selector]:
    """Every metric of an expression."""
    found = []
    for match in _SELECTOR.finditer(_without_groupings(expression)):
        matchers = tuple(
            (each["label"], tuple(each["value"].split("|") if each["kind"] in ("=~", "!~") else [each["value"]]))
            for each in _MATCHER.finditer(match["matchers"] or "")
        )
        found.append(Selector(match["name"], matchers))
    return found


def groupings(expression: str, *words: str) -> set[str]:
    """The labels in `by (…)` and the like, of all words or of these."""
    return {
        label.strip()
        for match in _GROUPING.finditer(expression)
        if not words or match["word"] in words
        for label in match["labels"].split(",")
        if label.strip()
    }


def faults(expression: str, series: Series) -> list[str]:
    """What an expression asks for and nobody exposes."""
    found, labels = [], set(TARGET)
    for selector in selectors(expression):
        exposed = OWN.get(selector.name) or _labels(series, selector.name)
        if exposed is None:
            found.append(f"nobody exposes {selector.name}")
            continue
        labels |= exposed
        for label, values in selector.matchers:
            if label not in exposed:
                found.append(f"{selector.name} has no label {label}")
            elif label in ("state", "outcome"):
                known = series[selector.name][label]
                found += [f'{selector.name} has no {label}="{value}"' for value in values if value not in known]
    found += [f"no metric in it has the label {label}" for label in groupings(expression) - labels]
    return found


def result_labels(expression: str, series: Series) -> set[str]:
    """The labels that results may have: those of the aggregations, or without one those of the metrics."""
    if aggregated := groupings(expression, "by"):
        return aggregated
    if re.match(r"\s*(sum|max|min|count|avg|absent)\b", expression):
        return set(TARGET) if "absent" in expression else set()
    labels = set(TARGET)
    for selector in selectors(expression):
        labels |= OWN.get(selector.name) or _labels(series, selector.name) or set()
    return labels


def _labels(series: Series, name: str) -> set[str] | None:
    return set(series[name]) | TARGET if name in series else None


def _without_groupings(expression: str) -> str:
    return _GROUPING.sub(" ", expression)
