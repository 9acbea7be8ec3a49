"""The documentation's site: built from the checkout, without a broken link, readable when narrow.

`docs/site/build_site.py` builds it as `make docs` does. Links are checked in the files; a headless
browser then opens every page at the width of a telephone and of a desk.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.headless_browser import HINT, Browser, find_browser
from support.paths import ROOT

WIDTHS = (400, 1400)
MIN_FONT = 11  # CSS pixels of running text
SITE = ROOT / "build" / "docs" / "site"
# The state of an open page: its width, the smallest font of running text, pictures that failed.
STATE = """({
  width: document.documentElement.scrollWidth,
  font: Math.min(...[...document.querySelectorAll("article p, article li, article td")].map(
    element => parseFloat(getComputedStyle(element).fontSize))),
  broken: [...document.images].filter(image => !image.naturalWidth).map(image => image.src),
  text: document.querySelector("article").innerText.length,
})"""


class Page(HTMLParser):
    """Addresses that a page refers to, and the ids that it defines."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.addresses.add(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    """The pages of a site that was built just now."""
    script = ROOT / "docs" / "site" / "build_site.py"
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Page(path) for path in sorted(SITE.rglob("*.html")) if path.name != "404.html"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.fail(HINT, pytrace=False)
    with Browser() as opened:
        yield opened


def test_every_part_is_there(pages: dict[Path, Page]) -> None:
    names = {path.relative_to(SITE).as_posix() for path in pages}
    sources = [*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    expected = {
        "index.html",
        "operators.html",
        "upstream-paths.html",
        "refused-paths.html",
        "contributing.html",
    }
    for source in sources:
        folder = "" if source.suffix == ".md" else "notebooks/"
        expected.add(f"{folder}{source.stem}.html")
    assert expected <= names
    assert "aten::add.out" in (SITE / "operators.html").read_text()
    assert "Runtime.load_program" in (SITE / "api" / "runtime.html").read_text()
    assert 'class="flow"' in (SITE / "export.html").read_text()


def test_no_link_is_broken(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or address.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            fragment = unquote(parts.fragment)
            if not target.is_file() or (
                fragment and target in pages and fragment not in {"", *pages[target].ids}
            ):
                broken.append(f"{path.relative_to(SITE)}: {address}")
    assert not broken


def test_every_page_is_readable_narrow_and_wide(pages: dict[Path, Page], browser: Browser) -> None:
    faults = []
    for path in pages:
        for width in WIDTHS:
            browser.resize(width)
            browser.open(path.as_uri())
            state = browser.evaluate(STATE)
            place = f"{path.relative_to(SITE)} at {width} pixels"
            if state["width"] > width:
                faults.append(f"{place}: expected no horizontal overflow, got {state['width']}")
            if (state["font"] or MIN_FONT) < MIN_FONT:
                faults.append(f"{place}: expected {MIN_FONT} pixels of font, got {state['font']}")
            if state["broken"] or state["text"] < 80:
                faults.append(f"{place}: {state['broken'] or 'expected text, got an empty page'}")
    assert not faults
    elsewhere = [a for a in browser.requests if not a.startswith(("file:", "data:", "about:"))]
    assert not elsewhere, "expected a site that loads nothing from elsewhere"
