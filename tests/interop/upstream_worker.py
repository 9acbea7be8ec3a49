"""Upstream's side of the interop tests, run by .venv-upstream's Python for support.upstream_peer.

  python upstream_worker.py DESCRIPTOR

Reads one JSON request a line: {"action": …, "folder": …, "name": …}, answers each with one line:
{"error": null} or the traceback, to the descriptor, since libraries may print to stdout. The
actions, on files in the folder:
  export         a case of the catalogue -> NAME.pte (cases from a library are not traced here:
                 NAME.pt2 must be there)
  delegate       a case of delegated.py -> NAME.pte, delegated to XNNPACK by its partitioner
  delegate_real  the same for a case of real_size.py
  run            NAME.pte -> NAME.pt: a list of flat output lists, one per set of inputs
  run_inputs     NAME.pte on every set of inputs in NAME.inputs.pt -> NAME.pt
  run_decoder    the same with the operators of key/value caches
  write_text     NAME.pte, NAME.tokenizer.json and a prompt in NAME.txt -> NAME.out, the text that
                 upstream's runner of language models writes
  time_inputs    the same, with the minimum time of a run on the first set: {"outputs", "ms"}
  write_feature  a feature of features.py -> NAME/program.pte and its data file
  run_feature    these files -> NAME/results.pt
  write_training the training program of training.py's model NAME -> training.pte
  run_training   this file -> training.pt
  generate       NAME.pte with the tokens of a prompt and pieces of it in NAME.json -> NAME.pt:
                 logits of each greedy step
  export_llm     a language model's configuration in texts, in NAME.json -> NAME.pte
  train          the same with the training module and SGD with NAME's options
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # models, interop, support

import executorch.kernels.quantized  # noqa: F401  # its operators, for torch and for the runtime
import torch
from support.llama_checkpoints import steps
from torch.utils import _pytree as pytree

from interop import features, training
from interop.cases import Case
from interop.catalogue import CASES

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def export(name: str, folder: Path) -> None:
    from executorch.exir import to_edge

    case = CASES[name]
    exported = torch.export.load(folder / f"{name}.pt2") if case.from_library else case.export()
    (folder / f"{name}.pte").write_bytes(to_edge(exported).to_executorch().buffer)


def delegate_small(name: str, folder: Path) -> None:
    from interop.delegated import SMALL

    delegate(SMALL[name].case, name, folder)


def delegate_real(name: str, folder: Path) -> None:
    from interop.real_size import REAL

    delegate(REAL[name].case, name, folder)


def delegate(case: Case, name: str, folder: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    path = folder / f"{name}.pte"
    exported = torch.export.load(folder / f"{name}.pt2") if case.from_library else case.export()
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    path.write_bytes(edge.to_executorch().buffer)


def run(name: str, folder: Path) -> None:
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    case, path = CASES[name], str(folder / f"{name}.pte")
    module = _load_for_executorch(path)
    outputs: list[list[Any]] = []
    for inputs in case.all_inputs():
        if not case.stateful:
            module = _load_for_executorch(path)
        flat, _ = pytree.tree_flatten(inputs)
        outputs.append(list(module.run_method("forward", tuple(flat), clone_outputs=True)))
    torch.save(outputs, folder / f"{name}.pt")


def run_inputs(name: str, folder: Path) -> None:
    torch.save(_outputs(name, folder)[0], folder / f"{name}.pt")


def run_decoder(name: str, folder: Path) -> None:
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401

    run_inputs(name, folder)


def write_text(name: str, folder: Path) -> None:
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner

    runner = TextLLMRunner(str(folder / f"{name}.pte"), str(folder / f"{name}.tokenizer.json"))
    config = GenerationConfig(max_new_tokens=12, temperature=0.0, echo=False)
    pieces: list[str] = []
    runner.generate((folder / f"{name}.txt").read_text(), config, pieces.append, None)
    (folder / f"{name}.out").write_text("".join(pieces))


def time_inputs(name: str, folder: Path) -> None:
    outputs, module, first = _outputs(name, folder)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        module.run_method("forward", first, clone_outputs=True)
        times.append(time.perf_counter() - begin)
    torch.save({"outputs": outputs, "ms": min(times) * 1e3}, folder / f"{name}.pt")


def _outputs(name: str, folder: Path) -> tuple[list[list[Any]], Any, tuple[Any, ...]]:
    """Results of every set of inputs, the loaded module, and the first set."""
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(folder / f"{name}.pte"))
    sets = [tuple(inputs) for inputs in torch.load(folder / f"{name}.inputs.pt")]
    results = [list(module.run_method("forward", inputs, clone_outputs=True)) for inputs in sets]
    return results, module, sets[0]


def generate(name: str, folder: Path) -> None:
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  # operators of caches
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(folder / f"{name}.pte"))

    def call(tokens: list[int], position: int) -> torch.Tensor:
        inputs = (torch.tensor([tokens]), torch.tensor([position]))
        result: torch.Tensor = module.run_method("forward", inputs, clone_outputs=True)[0]
        return result

    pieces = json.loads((folder / f"{name}.json").read_text())
    torch.save(list(steps(call, pieces)), folder / f"{name}.pt")


def export_llm(name: str, folder: Path) -> None:
    texts = json.loads((folder / f"{name}.json").read_text())
    command = [sys.executable, "-W", "ignore", "-m", "executorch.extension.llm.export.export_llm"]
    places = [f"export.output_dir={folder}", f"export.output_name={name}.pte"]
    subprocess.run([*command, *texts, *places], check=True, capture_output=True, cwd=folder)


ACTIONS = {
    "export": export,
    "delegate": delegate_small,
    "delegate_real": delegate_real,
    "run": run,
    "run_inputs": run_inputs,
    "run_decoder": run_decoder,
    "write_text": write_text,
    "time_inputs": time_inputs,
    "write_feature": lambda name, folder: features.write("executorch", name, folder),
    "run_feature": lambda name, folder: features.run("executorch", name, folder),
    "write_training": lambda name, folder: training.write("executorch", folder, name),
    "train": lambda name, folder: training.train("executorch", name, folder),
    "generate": generate,
    "export_llm": export_llm,
    "run_training": lambda _, folder: training.run("executorch", folder),
}


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "w")
    for line in sys.stdin:
        request = json.loads(line)
        error = None
        try:
            ACTIONS[request["action"]](request["name"], Path(request["folder"]))
        except Exception:
            error = traceback.format_exc()
        answers.write(json.dumps({"error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
