"""Notebooks of scripts with cells: `# %%` begins code, `# %% [markdown]` prose in comments.

Run with a script's path, this writes its notebook beside it, with the standard output of a run in
the working folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

_PROSE = " [markdown]"


def cells_of(script: str) -> list[tuple[str, str]]:
    """The kind and the text of each cell: "markdown" or "code"."""
    cells = []
    for part in f"\n{script}".split("\n# %%")[1:]:  # behind the head of the script
        head, _, body = part.partition("\n")
        if head == _PROSE:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().split("\n")]
            cells.append(("markdown", "\n".join(lines)))
        else:
            cells.append(("code", body.strip()))
    return cells


def _printed(outputs: list[Any]) -> list[Any]:
    """Results, and one output of all that was printed; messages of libraries are left out."""
    lines = [one.text for one in outputs if one.get("name") == "stdout"]
    printed = [nbformat.v4.new_output("stream", name="stdout", text="".join(lines))]
    results = [one for one in outputs if one.output_type != "stream"]
    return (printed if lines else []) + results


def main(script: Path) -> None:
    """Writes and runs the notebook of a script."""
    make = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    notebook = nbformat.v4.new_notebook(
        cells=[make[kind](source) for kind, source in cells_of(script.read_text())],
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )
    for i, cell in enumerate(notebook.cells):
        cell.id = f"cell-{i}"
        cell.metadata = {}
    nbclient.NotebookClient(notebook, timeout=1200, record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _printed(cell.outputs)
    nbformat.write(notebook, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
