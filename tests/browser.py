"""Chromium for the tests of the dashboard: Debian's, installed where that may be done, driven by Playwright.

Playwright never downloads a browser here. Without Chromium the tests are skipped, and say how to get it; in continuous
integration they fail.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE = "chromium"
HOW = "install Chromium (Debian: apt-get install --no-install-recommends chromium), or name one in CHROMIUM"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb",
)  # fmt: skip
LOCK = Path(__file__).resolve().parent.parent / ".brooq" / "chromium.lock"
PATIENCE = 20_000
"""For how many milliseconds a page is waited for: other tests run beside this one."""


def chromium() -> str:
    """The program. Skips the test where there is none and none may be installed."""
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        found = _install()
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no Chromium: {HOW}")
    return found


def _installed() -> str | None:
    given = os.environ.get("CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


def _install() -> str | None:
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        # Several workers of pytest-xdist may want it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := _installed()) is not None:
            return found
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", PACKAGE]):
            done = subprocess.run(
                ["apt-get", "-qq", *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            if done.returncode and command[0] == "install":
                return None
        return _installed()


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A browser with a profile of its own."""
    program = chromium()
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield opened
        finally:
            await opened.close()


@asynccontextmanager
async def visit(
    opened: Browser,
    base: str,
    *,
    width: int = 1280,
    height: int = 860,
    scripts: bool = True,
    light: bool = True,
    language: str = "en-US",
) -> AsyncIterator[Page]:
    """A fresh visitor's page. Errors of scripts and refusals of the content security policy fail the test at its end."""
    context: BrowserContext = await opened.new_context(
        base_url=base,
        viewport={"width": width, "height": height},
        java_script_enabled=scripts,
        color_scheme="light" if light else "dark",
        locale=language,
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("dialog", lambda dialog: wrong.append(f"a dialog said {dialog.message}"))
    try:
        yield page
    finally:
        await context.close()
    assert not wrong, wrong


async def log_in(page: Page, token: str, name: str = "Anna") -> None:
    """Through the form, as people do."""
    await page.goto("/login")
    await page.fill("input[name=token]", token)
    await page.fill("input[name=name]", name)
    await page.click("main button")
    await page.wait_for_selector(".tabs")
