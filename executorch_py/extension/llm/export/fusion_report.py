"""The parts of a captured decoder that were fused, and the layers where one was left, in one line.

Layers are those of the modules in which a node was traced (nn_module_stack).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torch.fx import Graph, Node

from executorch_py.exir.ir.match import is_call
from executorch_py.extension.llm.export.hf_parts import layer_numbers

_ATTENTION = "executorch_py::cached_attention"
_PRODUCT = "executorch_py::qlinear_groups"
_NORM = "executorch_py::rms_norm"
_COSINES, _RESIDUAL = 3, 11  # arguments that a fused part has
_PROJECTIONS = (_PRODUCT, "aten::linear", "aten::addmm", "aten::matmul", "aten::embedding")
# Operators of a rotation, among what comes between a projection and attention.
_ROTATIONS = ("aten::neg", "aten::sub.Tensor", "aten::view_as_complex", "aten::cos")
_SEARCHED = 100


def fusion_line(graph: Graph) -> str:
    """How many parts were fused, and which were left."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    attention = [node for node in calls if is_call(node, _ATTENTION)]
    products = [node for node in calls if is_call(node, _PRODUCT)]
    rotated = [node for node in attention if node.args[_COSINES] is not None]
    counts = [
        (len(rotated), "rotary embedding"),
        (sum(is_call(node, _NORM) for node in calls), "norm"),
        (sum(len(node.args) > _RESIDUAL for node in products), "residual"),
    ]
    found = [f"{n} {name}{'s' if n > 1 else ''}" for n, name in counts if n]
    left = {
        "rotary embeddings": [n for n in attention if n not in rotated and _is_rotated(n.args[0])],
        "norms": [node for node in calls if is_call(node, "aten::rsqrt")],
        "residuals": [node for node in calls if products and _is_residual(node)],
    }
    parts = [f"{name} of {_places(nodes)}" for name, nodes in left.items() if nodes]
    line = f"fused: {', '.join(found) or 'nothing'}"
    return f"{line}; not fused: {', '.join(parts)}" if parts else line


def _is_rotated(query: object) -> bool:
    """Whether a rotation is among the operators before a node."""
    waiting, seen = [query], set[Node]()
    while waiting and len(seen) < _SEARCHED:
        node = waiting.pop()
        if not isinstance(node, Node) or node in seen or is_call(node, *_PROJECTIONS):
            continue
        if is_call(node, *_ROTATIONS):
            return True
        seen.add(node)
        waiting.extend(node.all_input_nodes)
    return False


def _is_residual(node: Node) -> bool:
    """Whether a sum was traced in a layer itself, of two tensors of its size."""
    if not is_call(node, "aten::add.Tensor") or not re.search(r"\.\d+$", _path(node)[0]):
        return False
    shapes = [str(tuple(x.meta["val"].shape)) for x in node.args if isinstance(x, Node)]
    return len(shapes) == 2 and shapes[0] == shapes[1]


def _path(node: Node) -> tuple[str, str]:
    """The path and class of the innermost module in which a node was traced."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    path, kind = stack[-1]
    name = kind if isinstance(kind, str) else kind.__name__
    return str(path).removeprefix("model."), name.rpartition(".")[2]


def _places(nodes: Iterable[Node]) -> str:
    """Layers and classes of nodes; modules outside of layers by their paths."""
    layers: dict[str, set[int]] = {}
    others = dict[str, None]()
    for path, kind in map(_path, nodes):
        number = re.search(r"\.(\d+)(\.|$)", path)
        if number:
            layers.setdefault(kind, set()).add(int(number.group(1)))
        else:
            others[path or "the graph"] = None
    return ", ".join([*_named(layers), *others])


def _named(layers: dict[str, set[int]]) -> Iterator[str]:
    for kind, numbers in layers.items():
        yield f"{layer_numbers(numbers)} ({kind})"
