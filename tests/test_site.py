"""The documentation as a site: it is built strictly, every link in it leads somewhere, and no page fetches anything from
elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.documents import DOCUMENTS, ROOT

SITE = ROOT / "site"

pytestmark = pytest.mark.xdist_group("site")  # built once


@pytest.fixture(scope="module")
def site() -> Path:
    """As `make docs` makes it."""
    done = subprocess.run(
        ["scripts/docs", sys.executable],
        cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


class Page(HTMLParser):
    """What a page links to, fetches, and is linked to by."""

    def __init__(self, path: Path) -> None:
        """Read it."""
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.title = ""
        self._in_title = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One tag."""
        values = {name: value or "" for name, value in attrs}
        self._in_title = tag == "title"
        if anchor := values.get("id") or (values.get("name") if tag == "a" else None):
            self.anchors.add(anchor)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in values:
            self.fetched.append(values["src"])
        elif tag == "link" and values.get("rel") != "canonical":
            self.fetched.append(values.get("href", ""))

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._in_title:
            self.title += data
            self._in_title = False


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    """Every page but the one that is shown for what is not there."""
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":
            yield path, Page(path)


def test_every_document_is_a_page(site: Path) -> None:
    for document in DOCUMENTS:
        name = document.relative_to(ROOT).with_suffix(".html")
        page = site / (name.with_name("index.html") if name.stem == "README" else name)
        assert page.exists(), page


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    found = dict(pages(site))
    wrong = []
    for path, page in found.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            there = found[target].anchors | {"__skip"} if target in found else {unquote(parts.fragment)}
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in there):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert not wrong, "\n".join(wrong)


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for path, page in pages(site):
        assert not [link for link in page.fetched if urlsplit(link).netloc], path


def test_a_link_that_leads_nowhere_stops_the_build(site: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    shutil.copytree(ROOT / ".brooq" / "docs", tmp_path / ".brooq" / "docs")
    with (tmp_path / ".brooq" / "docs" / "README.md").open("a", encoding="utf-8") as readme:
        readme.write("\n[nowhere](docs/en/nowhere.md) and [there](docs/en/guide.md#nowhere)\n")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "page does not exist" in done.stderr
    assert "anchor does not exist" in done.stderr
