"""The Dockerfile: linted, and its steps tried in a clean folder, since no engine for containers is needed to see whether
they do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.stand import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"

pytestmark = pytest.mark.xdist_group("build")  # shares the program's wheel


def instructions() -> list[tuple[str, str]]:
    """Every instruction with its arguments."""
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_linter_finds_no_fault() -> None:
    program = Path(sys.executable).parent / "hadolint"
    if not program.exists():
        pytest.skip("hadolint comes with the tools of development on Linux x86_64 alone")
    # Steps stand one by one: the first stage is thrown away, so that joining them would save nothing.
    done = subprocess.run([program, "--ignore", "DL3059", DOCKERFILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_and_holds_no_secret() -> None:
    last = [name for name, _ in instructions()]
    assert dict(instructions())["USER"] == "65532:65532"
    assert last.index("USER") > max(index for index, name in enumerate(last) if name == "FROM")
    for name, arguments in instructions():
        assert not (name in ("ENV", "ARG") and re.search("TOKEN|PASSWORD|DATABASE_URL", arguments))
        if name == "FROM":
            assert re.fullmatch(r"python:3\.11-slim-bookworm( AS \w+)?", arguments)


def test_only_what_is_needed_is_sent_to_the_engine() -> None:
    kept = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        word
        for name, arguments in instructions()
        if name == "COPY" and not arguments.startswith("--from")
        for word in arguments.split()[:-1]
    }
    assert {line[1:] for line in kept if line.startswith("!")} == copied
    assert "*" in kept


def test_the_steps_make_a_worker(program: Path, tmp_path: Path) -> None:
    """As the engine would: every COPY and RUN of the first stage, with this folder in the place of the root."""
    context, root = tmp_path / "context", tmp_path / "root"
    (context / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "requirements" / "worker.txt", context / "requirements")
    shutil.copytree(program.parent.parent / "dist", context / "dist")
    environment = {name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment["PATH"] = f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"

    def here(text: str) -> str:
        return re.sub(r"(?<![\w.*])/(opt|build|app)\b", rf"{root}/\1", text)

    stage = instructions()[1:]
    for name, arguments in stage[: [each for each, _ in stage].index("FROM")]:
        if name == "COPY":
            *sources, target = arguments.split()
            (folder := Path(here(target))).mkdir(parents=True, exist_ok=True)
            for source in sources:
                for file in context.glob(source):
                    shutil.copy(file, folder)
        else:
            assert name == "RUN"
            command = [here(word) for word in json.loads(arguments)]
            command[0] = sys.executable.replace(sys.prefix, sys.base_prefix) if command[0] == "python" else command[0]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
            assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    said = subprocess.run(
        [root / "opt/brooq/bin/brooq", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert said.startswith("brooq ")
