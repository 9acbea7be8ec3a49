"""XnnpackBackend: turns a partition in the edge dialect into a payload of XNNPACK nodes.

The steps are passes over the partition, visitors (ops/) that build a graph of XNNPACK nodes, passes
over that graph, and serialization. The class name is the id under which runtimes find the delegate.
"""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from executorch_py.backends.xnnpack.ops import VISITORS
from executorch_py.backends.xnnpack.passes.pipeline import run_graph_passes, run_program_passes
from executorch_py.backends.xnnpack.payload.graph import refusal
from executorch_py.backends.xnnpack.payload.graph_builder import Builder
from executorch_py.backends.xnnpack.payload.open_payload import opened
from executorch_py.backends.xnnpack.payload.write_payload import Assembler
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.opened_payload import OpenedPayload
from executorch_py.exir.schema import CompileSpec


class XnnpackBackend(BackendDetails):
    """The ahead-of-time part of the delegate."""

    runs_empty_tensors = False
    # Vector kernels load whole registers, past the last element of an input.
    tail_padding = 64

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """The payload of a partition, with its constants as named data.

        Compile specs have no effect; upstream's only limit its passes.
        """
        for spec in edge_program.graph_signature.output_specs:
            if spec.kind is not OutputKind.USER_OUTPUT:
                raise refusal(None, f"a write to '{spec.target}' in the partition", "results only")
        run_program_passes(edge_program)
        graph = Builder(edge_program, VISITORS).build()
        run_graph_passes(graph)
        payload, named = Assembler(graph).run()
        return PreprocessResult(payload, debug_handle_map={}, data_store_output=named)

    @classmethod
    def opened(cls, payload: bytes, with_floats: bool = False) -> OpenedPayload | None:
        """The payload with its intermediate values as results."""
        return opened(payload, with_floats)
