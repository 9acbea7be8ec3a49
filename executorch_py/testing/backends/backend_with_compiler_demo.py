"""BackendWithCompilerDemo: the backend of upstream's tutorials, which lists its operators.

The payload is text with one entry per operator; it shows which graph a backend receives and how its
result is stored. `csrc/backends/demo` runs chains of `mm`, `add` and `sin` in float32; `sin` is
x - x³/6 there, as in upstream's tests. Bare builds leave it out.
"""

from __future__ import annotations

import math

from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.schema import CompileSpec

_VERSION = "0"
_KNOWN = {
    "aten::add.Tensor",
    "aten::linear",
    "aten::mm",
    "aten::scaled_dot_product_attention",
    "aten::sin",
    "aten::upsample_nearest2d.vec",
}


class BackendWithCompilerDemo(BackendDetails):
    """A backend of six operators; its payload has one entry for each call."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """`<count>version:0#<operator>#<operator>#…`; RuntimeError for an operator it lacks."""
        calls = [node for node in edge_program.graph.nodes if node.op == "call_function"]
        entries = "".join(f"{_describe(node)}#" for node in calls)
        own_handles: dict[int, tuple[int, ...]] = {
            node.meta["debug_handle"]: (node.meta["debug_handle"],) for node in calls
        }
        return PreprocessResult(
            processed_bytes=f"{len(calls)}version:{_VERSION}#{entries}".encode(),
            debug_handle_map=own_handles,
            _delegate_info_meta="test",
        )


def _describe(node: fx.Node) -> str:
    name = getattr(node.target, "__name__", str(node.target))
    if op_key(node.target) not in _KNOWN:
        raise RuntimeError(f"{node.op} {name} is not supported in backend BackendWithCompilerDemo")
    value = node.meta["val"]
    handle = node.meta.get("debug_handle", -1)
    return (
        f"op:demo::{name}, numel:{math.prod(value.shape)}, dtype:{value.dtype}"
        f"<debug_handle>{handle}"
    )
