"""The example for nginx: without a fault, and in front of a real surface it lets through what it should, by TLS."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.deploy.stand import ROOT, TOKEN
from tests.service.server import eventually, served
from tests.tools import nginx, openssl

from brooq import Queue
from brooq.testing import MemoryStore

EXAMPLE = ROOT / "deploy" / "nginx" / "brooq.conf"

AROUND = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/1;
    proxy_temp_path {folder}/2;
    fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4;
    scgi_temp_path {folder}/5;
    include {folder}/brooq.conf;
}}
"""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def prepare(folder: Path, upstream: int, port: int) -> list[str]:
    """The example with ports and certificate of the test; answers nginx's command."""
    tool = openssl()
    subprocess.run(
        [tool.program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(folder / "brooq.key"), "-out", str(folder / "brooq.crt")],
        env=tool.environment, check=True, capture_output=True,
    )  # fmt: skip
    text = EXAMPLE.read_text(encoding="utf-8")
    for shipped, here in {
        "127.0.0.1:8090": f"127.0.0.1:{upstream}",
        "listen 8443": f"listen 127.0.0.1:{port}",
        "/etc/nginx/": f"{folder}/",
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    (folder / "brooq.conf").write_text(text, encoding="utf-8")
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder), encoding="utf-8")
    return [nginx().program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def test_nginx_finds_no_fault(tmp_path: Path) -> None:
    command = prepare(tmp_path, 8090, free_port())
    done = subprocess.run([*command, "-t"], env=nginx().environment, capture_output=True, text=True, check=False)
    log = (tmp_path / "error.log").read_text() if (tmp_path / "error.log").exists() else ""
    assert done.returncode == 0, done.stderr + log
    assert not re.search(r"\[(warn|error|emerg)\]", done.stderr + log)


@contextmanager
def proxy(folder: Path, upstream: int, port: int) -> Iterator[None]:
    """nginx at work."""
    process = subprocess.Popen(prepare(folder, upstream, port), env=nginx().environment, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of nginx in front of a real surface."""
    async with served(Queue(MemoryStore()), token=TOKEN) as surface:
        port = free_port()
        with proxy(tmp_path, surface.port, port):
            trusted = ssl.create_default_context(cafile=str(tmp_path / "brooq.crt"))
            async with httpx.AsyncClient(
                base_url=f"https://localhost:{port}", verify=trusted, trust_env=False, timeout=20
            ) as found:
                await eventually(lambda: listens(port))
                yield found


def listens(port: int) -> bool:
    """Whether somebody is there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


async def test_health_and_metrics_go_through_and_nothing_else(client: httpx.AsyncClient) -> None:
    health = await client.get("/healthz")
    assert health.headers["content-type"] == "application/json"
    assert health.status_code in (200, 503)  # of a queue that was not started
    assert (await client.get("/readyz")).headers["content-type"] == "application/json"
    assert (await client.get("/metrics")).status_code == 401
    metrics = await client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    assert metrics.status_code == 200
    assert "brooq_build_info" in metrics.text
    for path in ("/", "/api/v1/jobs", "/healthz/", "/metrics/../"):
        assert (await client.get(path)).status_code == 404, path
