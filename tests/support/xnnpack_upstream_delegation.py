"""Records the operators that upstream's partitioner delegates; runs in upstream's environment.

    .venv-upstream/bin/python tests/support/xnnpack_upstream_delegation.py

writes xnnpack_upstream_delegation.json: case → [operators delegated, operators left], each operator
with its count.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import xnnpack_delegation_cases as delegation_cases


def leave_payloads_empty() -> None:
    """Skip the serialization of payloads, which takes most of the time."""
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
    from executorch.exir.backend.backend_details import PreprocessResult

    XnnpackBackend.preprocess = staticmethod(lambda *args: PreprocessResult(b""))


def count(nodes: Any, names: list[str], found: dict[str, Any], position: int) -> None:
    for node in nodes:
        name = str(getattr(node.target, "__name__", node.target))
        if node.op == "call_function" and name not in ("getitem", "executorch_call_delegate"):
            counts = found[delegation_cases.case_of(node, names)][position]
            counts[name] = counts.get(name, 0) + 1


def delegation(names: list[str]) -> dict[str, Any]:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.exir.lowered_backend_module import get_lowered_backend_modules

    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge_transform_and_lower(
        delegation_cases.group(names)[2],
        partitioner=[XnnpackPartitioner()],
        compile_config=config,
    )
    found: dict[str, Any] = {name: [{}, {}] for name in names}
    module = edge.exported_program().graph_module
    for part in get_lowered_backend_modules(module):
        count(part.original_module.graph.nodes, names, found, 0)
    count(module.graph.nodes, names, found, 1)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    leave_payloads_empty()
    found: dict[str, Any] = {}
    for names in delegation_cases.groups().values():
        found.update(delegation(names))
    lines = (f" {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    path = Path(__file__).with_suffix(".json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
