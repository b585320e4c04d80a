"""The document of the API, and that the API keeps to it whatever it is sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.service.brooq_process import worker
from tests.service.server import served

from brooq import Queue
from brooq.service.api.deed import DEEDS
from brooq.service.api.document import PREFIX, document
from brooq.testing import MemoryStore
from brooq.vocabulary.message import LANGUAGES

TOKEN = "w" * 32
EXAMPLES = 6
"""How many requests of chance for each path, beside those that follow from its types."""
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "negative_data_rejection,ignored_auth,unsupported_method,allow_header_conformance"
)


def test_every_path_is_in_the_document_with_its_types() -> None:
    said = json.loads(document("en"))
    assert said["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, methods in said["paths"].items() for method in methods}
    assert described == {(deed.method, PREFIX + deed.path) for deed in DEEDS}
    assert set(said["components"]["schemas"]) >= {"NewJob", "Job", "JobWithHistory", "Problem", "Jobs", "Enqueued"}
    referred = set(json.dumps(said).split('"#/components/schemas/')[1:])
    assert {each.partition('"')[0] for each in referred} <= set(said["components"]["schemas"])
    assert said["components"]["schemas"]["NewJob"]["additionalProperties"] is False


async def test_the_document_is_served_to_whoever_may_read_and_in_both_languages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(Queue(MemoryStore()), reading=TOKEN) as surface:
        path = f"{PREFIX}/openapi.json"
        assert (await surface.client.get(path)).status_code == 401
        titles = set()
        for language in LANGUAGES:
            monkeypatch.setenv("BROOQ_LANG", language)
            answer = await surface.client.get(path, headers={"authorization": f"Bearer {TOKEN}"})
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            titles.add(answer.json()["paths"][f"{PREFIX}/jobs"]["post"]["summary"])
        assert len(titles) == len(LANGUAGES)


def test_the_api_keeps_to_its_document_whatever_it_is_sent(dsn: str, tmp_path: Path) -> None:
    """Schemathesis makes requests of the document, right ones and wrong ones, and compares the answers with it."""
    with worker(dsn=dsn, cwd=tmp_path, HTTP_TOKEN=TOKEN) as process:
        where = f"http://127.0.0.1:{process.port()}{PREFIX}/openapi.json"
        assert httpx.get(where, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False).status_code == 200
        done = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"), "run", where, "-H", f"Authorization: Bearer {TOKEN}",
                "--checks", CHECKS, "--max-examples", str(EXAMPLES), "--seed", "7",
                "--phases", "examples,coverage,fuzzing", "--no-shrink", "--warnings", "off",
            ],
            cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False,
            env={**os.environ, "NO_COLOR": "1", "no_proxy": "*"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert "Traceback" not in process.log
