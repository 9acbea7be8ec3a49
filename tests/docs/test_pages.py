"""Limits of the pages: length, columns, links that lead somewhere, figures in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tree import tracked

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "csrc" / "README.md"]
PAGES = [*FRONT, *DOCS]
LINES = {"README.md": 110, "CONTRIBUTING.md": 120, "csrc/README.md": 40}
COLUMNS = 120
# The pages that hold measured figures; all other Markdown files link to them.
FIGURES = {"README.md", "docs/benchmarks.md"}
UNITS = r"[nµmu]?s|min|minutes?|seconds?|hours?|[MG]B/s|GFLOP/s|tokens/s"
FIGURE = re.compile(rf"\d ?(?:{UNITS}|times (?:as|faster|slower)|% of (?:the|its|their))\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside of fences, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text: str) -> set[str]:
    """The fragment of each heading, as GitHub and the site make it."""
    return {
        re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
        for _, line in prose(text)
        if line.startswith("#")
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_keeps_its_limits(page: Path) -> None:
    text = page.read_text()
    limit = LINES.get(name_of(page), 1000)
    assert len(text.splitlines()) <= limit
    if page in FRONT:
        lines = list(enumerate(text.splitlines(), 1))
    else:  # tables and code may be wider, since neither can be wrapped
        lines = [(number, line) for number, line in prose(text) if not line.startswith("|")]
    too_long = [f"{name_of(page)}:{number}" for number, line in lines if len(line) > COLUMNS]
    assert not too_long, f"expected at most {COLUMNS} columns"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for number, line in prose(page.read_text()):
        for target in LINK.findall(line):
            path, _, fragment = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if "://" in target:
                continue
            if not file.exists() or (fragment and fragment not in anchors(file.read_text())):
                broken.append(f"{name_of(page)}:{number}: {target}")
    assert not broken


def test_measured_figures_stand_in_one_place() -> None:
    found = [
        f"{path}:{number}: {line}"
        for path in tracked()
        if path.endswith(".md") and path not in FIGURES
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        if FIGURE.search(line)
    ]
    assert not found, "expected measured figures in docs/benchmarks.md only"


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    missing = [name_of(page) for page in DOCS if f"({name_of(page)})" not in text]
    assert not missing
