"""Every notebook runs from top to bottom in a fresh kernel and is stored with its output."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from support.notebook_cells import cells_of
from support.real_models import Unavailable, gguf_file, installed

# Notebooks that begin with a download, if the file is not in their folder: its name, the model.
_SMOLLM2 = ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct-Q4_1")
DOWNLOADS = {"05_language_model": _SMOLLM2, "chat_smollm2": _SMOLLM2}
# Notebooks that install a package into the folder `packages`, if it is not there: pip's name, and
# wheels for Linux on x86-64 and aarch64 and for macOS.
PACKAGES = {
    "chat_smollm2": (
        "llguidance==1.9.1",
        (
            "dfac6021d9c4c5ef16b3a1d336c05ca5e8208ff30dec29d1c63ebcafbee3a346",
            "31b75c9f6e09d000d062ef7e4eb3bcb3759fc1eda5619be50fdd8a830b0e8bdf",
            "a942487cd6221b793df3a11450881a6c9d25a45460a900c56d99b682633c45fe",
        ),
    )
}
NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
SCRIPTS = [path.with_suffix(".py") for path in NOTEBOOKS if path.with_suffix(".py").exists()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.stem in DOWNLOADS:
        file, model = DOWNLOADS[path.stem]
        try:
            (tmp_path / file).symlink_to(gguf_file(model))
            if path.stem in PACKAGES:
                (tmp_path / "packages").symlink_to(installed(*PACKAGES[path.stem]))
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


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_script(path: Path) -> None:
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
    made = f"python tests/support/notebook_cells.py notebooks/{path.name}"
    assert cells == cells_of(path.read_text()), f"run {made}"
