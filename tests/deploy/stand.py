"""A real worker with real metrics, and a real Prometheus that reads them as the shipped configuration says."""

from __future__ import annotations

import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.promql import Series
from tests.service.brooq_process import Table, Worker, worker, write
from tests.tools import prometheus

ROOT = Path(__file__).resolve().parent.parent.parent
PROMETHEUS = ROOT / "deploy" / "prometheus"
TOKEN = "a token of thirty-two bytes or more".replace(" ", "-")

APP = """
    @queue.kind("mail", max_attempts=1)
    async def mail(claim: Claim) -> None:
        if claim.payload.get("fail"):
            raise ValueError("as asked")
"""


@contextmanager
def working(dsn: str, folder: Path) -> Iterator[Worker]:
    """A worker of two processes that has done something of everything."""
    write(folder, APP)
    table = Table(dsn)
    try:
        with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=folder, HTTP_TOKEN=TOKEN) as process:
            done = [table.insert("mail"), table.insert("mail", '{"fail": true}')]
            table.wait(done[0], "done")
            table.wait(done[1], "dead")
            yield process
    finally:
        table.close()


def metrics_text(port: int) -> str:
    """What the worker exposes, as text."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers=headers, trust_env=False, timeout=20)
    assert answer.status_code == 200
    return answer.text


def exposed(text: str) -> Series:
    """Every sample's name, with its labels and their values."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return {name: {label: frozenset(of) for label, of in labels.items()} for name, labels in found.items()}


class Server:
    """A Prometheus that runs."""

    def __init__(self, port: int) -> None:
        """On this port of loopback."""
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False, timeout=20)

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises AssertionError with Prometheus's own words for an error."""
        answer = self._client.get(path, params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def answers(self) -> bool:
        """Whether it is there."""
        try:
            return self._client.get("/status/runtimeinfo").status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """Ask no more."""
        self._client.close()


@contextmanager
def reading(port: int, folder: Path) -> Iterator[Server]:
    """Prometheus with the shipped files; the worker's port, the token's file and the pace are those of the test."""
    tool = prometheus()
    (folder / "token").write_text(TOKEN)
    (folder / "rules.yml").write_text((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"), encoding="utf-8")
    text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    for shipped, here in {
        "127.0.0.1:8090": f"127.0.0.1:{port}",
        "/etc/prometheus/brooq-token": str(folder / "token"),
        "scrape_interval: 15s": "scrape_interval: 500ms",
        "evaluation_interval: 15s": "evaluation_interval: 1s",
        "scrape_timeout: 5s": "scrape_timeout: 500ms",
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [tool.program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{own}", "--log.level=warn"],
            env=tool.environment, stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
    server = Server(own)
    try:
        deadline = time.monotonic() + 60
        while not server.answers():
            ended = process.poll() is not None or time.monotonic() > deadline
            assert not ended, (folder / "prometheus.log").read_text()
            time.sleep(0.05)
        yield server
    finally:
        server.close()
        process.kill()
        process.wait()
