"""The text of the models table: docs/models.md, and the summary of times for docs/benchmarks.md."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from models.table_entry import Architecture
from models.table_reasons import reason_of

TITLES = {"portable": "portable", "xnnpack": "XNNPACK", "int8": "int8"}
COLUMNS = tuple(TITLES)
# Nodes of a graph whose time for each node is compared with others.
ENOUGH = 50
Record = Mapping[tuple[str, str], dict[str, Any]]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
# Everything below this heading is made by the script.
HEADING = "## Architectures\n"
NOT_MEASURED = "The script builds these, too; their cells were not measured in this run:\n"


def markdown(names: Mapping[str, Architecture], record: Record) -> str:
    """The whole page: what stands above its table, and the table anew."""
    introduction, heading, _ = PAGE.read_text().partition(HEADING)
    if not introduction.strip() or not heading:
        raise SystemExit(
            f"{PAGE}: expected text above {HEADING.strip()!r}, got none; git checkout restores it"
        )
    rows = [row for row in names.values() if all((row.name, c) in record for c in COLUMNS)]
    text = [introduction, heading, head(rows, record)]
    for library in dict.fromkeys(row.library for row in rows):
        text.append(f"\n### {library}\n\n")
        text.append("| architecture | kind | nodes | portable | XNNPACK | int8 | reason |\n")
        text.append("| --- | --- | --- | --- | --- | --- | --- |\n")
        listed = [row for row in rows if row.library == library]
        text += [line_of(row, record) for row in sorted(listed, key=lambda r: r.name.lower())]
    missing = sorted(set(names) - {row.name for row in rows}, key=str.lower)
    if missing:
        lines = textwrap.fill("; ".join(missing), 118, break_on_hyphens=False)
        text.append(f"\n{NOT_MEASURED}\n{lines}\n")
    text.append(
        "\nSee also: [export](export.md), [delegate to XNNPACK](xnnpack.md), and the times of"
    )
    text.append(" lowering in\n[benchmarks](benchmarks.md#lowering-of-many-architectures).\n")
    return "".join(text)


def head(rows: list[Architecture], record: Record) -> str:
    """Machine, date, command, and how many cells of each column are ok."""
    dates = (record[row.name, c].get("date", "") for row in rows for c in COLUMNS)
    date = max(dates, default="")
    counts = ", ".join(
        f"{sum(record[row.name, c]['status'] == 'ok' for row in rows)} {title}"
        for c, title in TITLES.items()
    )
    text = (
        f"{machine()}, {date}, `.ci/setup.sh models`, then "
        "`.venv/bin/python tests/models/models_table.py --record FILE`. "
        f"Of {len(rows)} architectures are ok: {counts}."
    )
    return f"\n{textwrap.fill(text, 118, break_on_hyphens=False)}\n"


def machine() -> str:
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return " ".join(cpu[1].split()) if cpu else "Unknown processor"


def line_of(row: Architecture, record: Record) -> str:
    cells = [record[row.name, column] for column in COLUMNS]
    reasons: dict[str, list[str]] = {}
    for column, cell in zip(COLUMNS, cells, strict=True):
        if cell["status"] != "ok":
            reasons.setdefault(reason_of(cell), []).append(column)
    parts = [
        reason
        if len(reasons) == 1 and len(columns) in (1, 3)
        else f"{', '.join(columns)}: {reason}"
        for reason, columns in reasons.items()
    ]
    nodes = cells[0].get("nodes", "")
    states = " | ".join(cell["status"] for cell in cells)
    return f"| {row.name} | {row.kind} | {nodes} | {states} | {'; '.join(parts)} |\n"


def rows_of(page: str) -> Iterator[list[str]]:
    """The cells of each row of the page: name, kind, nodes, three states, reason."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 7 and cells[0] not in ("architecture", "---"):
            yield cells


def not_measured(page: str) -> list[str]:
    """The names at the end of the page."""
    listed = page.partition(NOT_MEASURED)[2].strip().split("\n\n")[0]
    return " ".join(listed.splitlines()).split("; ") if listed else []


def summary(record: Record) -> str:
    """Rows for docs/benchmarks.md: milliseconds for each node, of graphs with enough nodes.

    torch's run_decompositions takes a time that small graphs have too few nodes to share.
    """
    lines = []
    for column in COLUMNS:
        cells = [c for c in record.values() if c["column"] == column]
        timed = [c for c in cells if c.get("nodes", 0) >= ENOUGH]
        worst = max(timed, key=lambda c: c["ms_per_node"])
        half = median(c["ms_per_node"] for c in timed)
        lines.append(
            f"| {TITLES[column]} | {len(timed)} | {half:.1f} ms | {worst['ms_per_node']:.1f} ms | "
            f"{worst['name']}, {worst['nodes']} nodes |\n"
        )
        states = ", ".join(f"{n} {s}" for s, n in Counter(c["status"] for c in cells).items())
        above = ", ".join(
            f"{c['name']} ({c['nodes']})" for c in cells if c.get("ms_per_node", 0) > 20
        )
        lines.append(f"  {states}; above 20 ms, with nodes: {above or 'none'}\n")
    return "".join(lines)
