"""Every notebook runs from top to bottom in a fresh kernel and is stored with its output."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from support.real_models import Unavailable, gguf_file

# Notebooks that begin with a download, if the file is not in their folder: its name, the model.
DOWNLOADS = {"05_language_model": ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct-Q4_1")}
NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.stem in DOWNLOADS:
        file, model = DOWNLOADS[path.stem]
        try:
            (tmp_path / file).symlink_to(gguf_file(model))
        except Unavailable as error:
            pytest.skip(str(error))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=1200, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert all(
        output["output_type"] != "error"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


def test_notebooks_are_stored_with_their_output() -> None:
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        shown = [c for c in notebook.cells if c.cell_type == "code" and c.outputs]
        assert shown, f"{path.name} was saved without output"
