"""Runs inside .venv-upstream: exports the catalogue with upstream's exporter, or runs files on
upstream's runtime.

  python upstream_worker.py export FOLDER NAME…   writes FOLDER/NAME.pte
  (a case from a library is not traced here: FOLDER/NAME.pt2 must be there)
  python upstream_worker.py run FOLDER NAME…      runs FOLDER/NAME.pte, writes
  FOLDER/NAME.upstream.pt (a list of flat
                                                  output lists, one per set of inputs)
A case that fails leaves FOLDER/NAME.error with the reason; the other cases go on.
"""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # models
sys.path.insert(0, str(Path(__file__).resolve().parent))  # catalogue

import executorch.kernels.quantized  # noqa: F401  # its operators, for torch and for the runtime
import torch
from catalogue import CASES, Case
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def export(case: Case, folder: Path) -> None:
    from executorch.exir import to_edge

    traced = folder / f"{case.name}.pt2"
    exported = torch.export.load(traced) if case.from_library else case.export()
    program = to_edge(exported).to_executorch()
    (folder / f"{case.name}.pte").write_bytes(program.buffer)


def run(case: Case, folder: Path) -> None:
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    path = str(folder / f"{case.name}.pte")
    module = _load_for_executorch(path)
    outputs: list[list[Any]] = []
    for inputs in case.all_inputs():
        if not case.stateful:
            module = _load_for_executorch(path)
        flat, _ = pytree.tree_flatten(inputs)
        outputs.append(list(module.run_method("forward", tuple(flat), clone_outputs=True)))
    torch.save(outputs, folder / f"{case.name}.upstream.pt")


def main() -> None:
    action, folder, *names = sys.argv[1:]
    todo = {"export": export, "run": run}[action]
    for name in names:
        try:
            todo(CASES[name], Path(folder))
        except Exception:
            (Path(folder) / f"{name}.error").write_text(traceback.format_exc())


if __name__ == "__main__":
    main()
