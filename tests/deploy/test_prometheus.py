"""What is shipped for Prometheus and Grafana: checked and tried by promtool, compared with a real worker's metrics, and
run by a real Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.database import Server as Postgres
from tests.deploy import promql, stand
from tests.deploy.promql import Series
from tests.deploy.stand import PROMETHEUS, ROOT
from tests.documents import GUIDE, table
from tests.tools import promtool

RULES: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"][0][
    "rules"
]
CASES: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "rules.test.yml").read_text(encoding="utf-8"))["tests"]
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(GRAFANA.glob("*.json"))}

pytestmark = pytest.mark.xdist_group("prometheus")  # one worker and one Prometheus for all of them


def run(*arguments: str, cwd: Path = PROMETHEUS) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end."""
    tool = promtool()
    return subprocess.run(
        [tool.program, *arguments],
        cwd=cwd,
        env=tool.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@dataclass
class Watched:
    """A worker that Prometheus watches."""

    text: str
    series: Series
    prometheus: stand.Server


@pytest.fixture(scope="module")
def watched(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A worker of two processes with something of everything, and a Prometheus with the shipped files."""
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        postgres.database(migrated=True) as dsn,
        stand.working(dsn, folder) as process,
        stand.reading(process.port(), folder) as server,
    ):
        deadline = time.monotonic() + 60
        while server.ask("/query", query='min(count_over_time(up{job="brooq"}[1h])) > 3')["result"] == []:
            assert time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            time.sleep(0.1)
        text = stand.metrics_text(process.port())
        yield Watched(text, stand.exposed(text), server)


# --- promtool ---


def test_promtool_finds_no_fault_in_configuration_and_rules() -> None:
    for command in (["check", "config", "--syntax-only", "prometheus.yml"], ["check", "rules", "rules.yml"]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should_and_only_then() -> None:
    done = run("test", "rules", "rules.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_tests_of_the_alerts_notice_one_that_never_fires(rule: dict[str, Any], tmp_path: Path) -> None:
    name = rule["alert"]
    case = next(each for each in CASES if f'alertname="{name}"' in json.dumps(each).replace("\\", ""))
    rules = [{**each, "expr": "vector(0) > 1"} if each["alert"] == name else each for each in RULES]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "brooq", "rules": rules}]}))
    test = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "rules.test.yml").write_text(yaml.safe_dump(test))
    done = run("test", "rules", "rules.test.yml", cwd=tmp_path)
    assert done.returncode == 1
    assert name in done.stderr


def test_every_alert_says_what_it_means_in_both_languages() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "summary_ru", "description"}
        assert re.search("[а-я]", rule["annotations"]["summary_ru"])
        placeholders = [re.findall(r"{{.*?}}", rule["annotations"][key]) for key in ("summary", "summary_ru")]
        assert sorted(placeholders[0]) == sorted(placeholders[1]), rule["alert"]


def test_the_guide_lists_every_alert_with_its_severity() -> None:
    listed = {name: row[1] for row in table(GUIDE, "alert") for name in re.findall(r"`(\w+)`", row[0])}
    assert listed == {rule["alert"]: rule["labels"]["severity"] for rule in RULES}


def test_promtool_finds_no_fault_in_the_metrics(watched: Watched) -> None:
    tool = promtool()
    done = subprocess.run(
        [tool.program, "check", "metrics"], input=watched.text, env=tool.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# --- against a real worker ---


def test_alerts_ask_for_nothing_that_a_worker_does_not_expose(watched: Watched) -> None:
    for rule in RULES:
        assert not promql.faults(rule["expr"], watched.series), rule["alert"]
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert used <= promql.result_labels(rule["expr"], watched.series), rule["alert"]


def test_every_alert_is_evaluated_without_an_error_and_none_fires_on_a_healthy_worker(watched: Watched) -> None:
    def rules() -> list[dict[str, Any]]:
        (group,) = watched.prometheus.ask("/rules")["groups"]
        return list(group["rules"])

    deadline = time.monotonic() + 30
    while any(rule["health"] == "unknown" for rule in rules()):
        assert time.monotonic() < deadline, rules()
        time.sleep(0.1)
    assert {rule["name"]: rule["health"] for rule in rules()} == {rule["alert"]: "ok" for rule in RULES}
    # One of the two jobs was made to fail.
    assert {rule["name"] for rule in rules() if rule["state"] == "firing"} <= {"BrooqJobsDead"}


# --- Grafana ---


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets(dashboard: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every query with its panel's title."""
    return [(panel["title"], target) for panel in panels(dashboard) for target in panel["targets"]]


def asked(expression: str) -> str:
    """An expression as Grafana sends it."""
    for variable, value in {"job": "brooq", "instance": ".*", "topic": ".*", "__rate_interval": "1m"}.items():
        expression = expression.replace(f"${variable}", value)
    assert "$" not in expression
    return expression


def queries(dashboard: dict[str, Any]) -> list[str]:
    """What the variables and annotations ask."""
    variables = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return variables + [each["expr"] for each in dashboard["annotations"]["list"]]


def test_the_dashboard_asks_for_nothing_that_a_worker_does_not_expose(watched: Watched) -> None:
    dashboard = DASHBOARDS["brooq.json"]
    for title, target in targets(dashboard):
        expression = asked(target["expr"])
        assert not promql.faults(expression, watched.series), title
        used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert used <= promql.result_labels(expression, watched.series), title
    for query in queries(dashboard):
        assert promql.selectors(query)
        assert not promql.faults(asked(query), watched.series), query


def test_a_real_prometheus_has_an_answer_to_every_query_of_the_dashboard(watched: Watched) -> None:
    for title, target in targets(DASHBOARDS["brooq.json"]):
        found = watched.prometheus.ask("/query", query=asked(target["expr"]))
        assert found["result"], title


def test_the_dashboard_shows_every_metric_of_the_worker(watched: Watched) -> None:
    shown = {
        selector.name
        for _, target in targets(DASHBOARDS["brooq.json"])
        for selector in promql.selectors(asked(target["expr"]))
    }
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in watched.series if not name.endswith("_created")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} - {"up"} == families


def test_both_dashboards_differ_in_their_words_alone() -> None:
    def bare(value: Any) -> Any:
        words = ("title", "description", "label", "legendFormat", "uid", "name")
        if isinstance(value, dict):
            return {key: bare(each) for key, each in value.items() if key not in words}
        return [bare(each) for each in value] if isinstance(value, list) else value

    english, russian = DASHBOARDS["brooq.json"], DASHBOARDS["brooq.ru.json"]
    assert bare(english) == bare(russian)
    for panel in russian["panels"]:
        assert re.search("[а-я]", panel["title"]) or panel["title"] == "HTTP", panel["title"]


def test_panels_do_not_cover_each_other() -> None:
    for name, dashboard in DASHBOARDS.items():
        taken: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            cells = {
                (place["x"] + column, place["y"] + row) for column in range(place["w"]) for row in range(place["h"])
            }
            assert not taken & cells, (name, panel["title"])
            assert place["x"] + place["w"] <= 24
            taken |= cells


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(brooq_claims_total[5m])", "nobody exposes brooq_claims_total"),
        ('brooq_jobs{kind="mail"}', "brooq_jobs has no label kind"),
        ('brooq_jobs{state=~"done|ready"}', 'brooq_jobs has no state="ready"'),
        ("sum by (kind) (brooq_jobs)", "no metric in it has the label kind"),
    ],
)
def test_a_wrong_expression_is_found(expression: str, fault: str) -> None:
    series = {"brooq_jobs": {"topic": frozenset({"mail"}), "state": frozenset({"done"})}}
    assert promql.faults(expression, series) == [fault]
