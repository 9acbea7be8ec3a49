"""Exports by name, each made anew and hashed: bytes of its files, bits of its results.

A program, not a module of tests: `python recorded_exports.py OUT.json [NAME…]` with PYTHONPATH set
to the checkout whose package is meant; compare_checkouts.py calls it. Every export starts from the
same seeds. `--reverse` makes them in the other order, which shows whether one depends on another.
The exports themselves stand in recorded_portable.py and recorded_delegated.py.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import logging
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

PARTS = ("recorded_portable", "recorded_delegated")
Inputs = tuple[Any, ...]


@dataclass
class Made:
    """A program, the calls to make on it in order, and other files that came of the export."""

    program: Any
    calls: Sequence[tuple[str, Inputs]] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    options: dict[str, Any] | None = None  # of the XNNPACK delegate, at load


CASES: dict[str, Callable[[], Made]] = {}


def case(name: str, make: Callable[..., Made], *arguments: Any) -> None:
    """Add one export and what it is made with; names are unique."""
    if name in CASES:
        raise ValueError(f"two exports are called {name!r}")
    CASES[name] = partial(make, *arguments)


def exported(model: torch.nn.Module, inputs: Inputs, dynamic: Any = None) -> Any:
    with torch.no_grad():
        return torch.export.export(model, inputs, dynamic_shapes=dynamic)


def portable(
    model: torch.nn.Module,
    inputs: Inputs,
    dynamic: Any = None,
    more: Sequence[Inputs] = (),
    edge: dict[str, Any] | None = None,
    **config: Any,
) -> Made:
    """Lowered without a delegate; `edge` and `config` are fields of the two configurations."""
    from executorch_py.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge

    program = exported(model, inputs, dynamic)
    manager = to_edge(program, compile_config=EdgeCompileConfig(**(edge or {})))
    made = manager.to_executorch(ExecutorchBackendConfig(**config))
    return Made(made, [("forward", given) for given in (inputs, *more)])


def delegated(
    model: torch.nn.Module,
    inputs: Inputs,
    dynamic: Any = None,
    more: Sequence[Inputs] = (),
    partitioner: Any = None,
    **config: Any,
) -> Made:
    """Lowered with a partitioner, XNNPACK's by default."""
    from executorch_py.backends.xnnpack import XnnpackPartitioner
    from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    program = exported(model, inputs, dynamic)
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner or XnnpackPartitioner()])
    made = edge.to_executorch(ExecutorchBackendConfig(**config))
    return Made(made, [("forward", given) for given in (inputs, *more)])


def several(
    methods: dict[str, tuple[torch.nn.Module, Inputs]],
    calls: Sequence[tuple[str, Inputs]],
    constants: dict[str, Any] | None = None,
    partitioner: Any = None,
    **config: Any,
) -> Made:
    """Methods of one program, with constant methods."""
    from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    programs = {name: exported(model, inputs) for name, (model, inputs) in methods.items()}
    chosen = {name: [partitioner] for name in methods} if partitioner is not None else None
    edge = to_edge_transform_and_lower(programs, partitioner=chosen, constant_methods=constants)
    return Made(edge.to_executorch(ExecutorchBackendConfig(**config)), calls)


# ---- hashes


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _bits(value: Any) -> bytes:
    """Element type, shape and bits of a result; NaNs count as their bits."""
    if not isinstance(value, torch.Tensor):
        return repr(value).encode()
    flat = value.detach().contiguous().reshape(-1)
    content = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return f"{value.dtype} {tuple(value.shape)} ".encode() + content


def _results(made: Made, data_files: list[bytes]) -> str:
    from executorch_py.runtime import Runtime

    options = None if made.options is None else {"XnnpackBackend": made.options}
    program = Runtime.get().load_program(
        made.program.buffer, data_path=data_files or None, n_threads=1, backend_options=options
    )
    methods: dict[str, Any] = {}
    digest = hashlib.sha256()
    for name, inputs in made.calls:
        if name not in methods:
            methods[name] = program.load_method(name)
            methods[name].seed(0)
        for result in methods[name].execute(tree_leaves(inputs)):
            digest.update(_bits(result))
    return digest.hexdigest()


def hashes(make: Callable[[], Made]) -> dict[str, str]:
    """File or `results` → hash, of one export made from the same seeds as all."""
    torch.manual_seed(0)
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
    made = make()
    found = {"pte": _sha(made.program.buffer)}
    with tempfile.TemporaryDirectory() as folder:
        made.program.write_tensor_data_to_file(folder)
        data_files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    files = data_files | made.files
    found |= {name: _sha(content) for name, content in files.items()}
    if made.calls:
        found["results"] = _results(made, list(data_files.values()))
    return found


# ---- the program


def same_processor() -> None:
    """Instruction sets of one processor, as Python code of torch and torchao sees them.

    torchao traces another graph on others.
    """
    known = {**torch.cpu.get_capabilities(), "avx512_vnni": True, "amx_tile": True}
    torch.cpu.get_capabilities = lambda: known


def register() -> None:
    """Fill CASES."""
    # The parts import this file by its own name, which `__main__` is not.
    sys.modules.setdefault(Path(__file__).stem, sys.modules[__name__])
    for part in PARTS:
        importlib.import_module(part).register()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help="only these exports")
    parser.add_argument("--reverse", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    same_processor()
    register()
    names = arguments.names or list(CASES)
    found: dict[str, dict[str, Any]] = {}
    for name in reversed(names) if arguments.reverse else names:
        start = time.perf_counter()
        try:
            found[name] = dict(hashes(CASES[name]))
        except Exception as error:  # recorded beside the others: an export may be refused
            traceback.print_exc()
            found[name] = {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
        print(f"{time.perf_counter() - start:6.1f} s  {name}", file=sys.stderr, flush=True)
    arguments.out.write_text(json.dumps({name: found[name] for name in sorted(found)}, indent=1))


if __name__ == "__main__":
    main()
