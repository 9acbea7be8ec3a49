"""LoweredBackendModule: a part of a program that its backend compiled to bytes.

Keeps the program it came from, so that it still runs in eager and can be inspected. Knows nothing
of partitioners; backend/backend_api.py and backend/extract.py make these.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import (
    executorch_call_delegate,
    get_lowered_module_name,
)
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from executorch_py.exir.backend.backend_details import UNKNOWN_TAIL_PADDING, BackendDetails
from executorch_py.exir.ir.graph import copy_program, flat_outputs
from executorch_py.exir.schema import CompileSpec
from executorch_py.exir.serialize.named_data import NamedDataStoreOutput

if TYPE_CHECKING:
    from executorch_py.exir.program import ExecutorchProgramManager
    from executorch_py.exir.schema import Program


class LoweredBackendModule(torch.nn.Module):
    """A delegate: backend id, payload, compile specs, named data, and the original program."""

    meta: dict[str, Any] | None

    def __init__(
        self,
        edge_program: ExportedProgram,
        backend_id: str,
        processed_bytes: bytes,
        compile_specs: list[CompileSpec],
        named_data_store_output: NamedDataStoreOutput | None = None,
    ) -> None:
        super().__init__()
        self._original_exported_program = edge_program
        self._backend_id = backend_id
        self._processed_bytes = processed_bytes
        self._compile_specs = compile_specs
        self._named_data_store_output = named_data_store_output
        self.meta = None

    def __deepcopy__(self, memo: dict[int, Any] | None) -> LoweredBackendModule:
        """A module of its own over the same payload and weights."""
        made = LoweredBackendModule(
            copy_program(self._original_exported_program),
            self._backend_id,
            self._processed_bytes,
            [CompileSpec(spec.key, spec.value) for spec in self._compile_specs],
            self._named_data_store_output,
        )
        made.meta = None if self.meta is None else dict(self.meta)
        return made

    @property
    def backend_id(self) -> str:
        """Name under which the runtime finds the backend."""
        return self._backend_id

    @property
    def processed_bytes(self) -> bytes:
        """The payload that the backend made."""
        return self._processed_bytes

    @property
    def compile_specs(self) -> list[CompileSpec]:
        """Settings stored beside the payload."""
        return self._compile_specs

    @property
    def original_module(self) -> ExportedProgram:
        """The program that was lowered."""
        return self._original_exported_program

    @property
    def named_data_store_output(self) -> NamedDataStoreOutput | None:
        """Data that the backend stores by name beside the payload."""
        return self._named_data_store_output

    @property
    def tail_padding(self) -> int:
        """Bytes behind its buffers that the backend may read, see BackendDetails.tail_padding.

        UNKNOWN_TAIL_PADDING if the backend's class is not imported, as after loading a saved
        program.
        """
        known = {cls.__name__: cls.tail_padding for cls in BackendDetails.__subclasses__()}
        return known.get(self._backend_id, UNKNOWN_TAIL_PADDING)

    def forward(self, *args: Any) -> Any:
        """Run the original program in eager; a tracer records a delegate call."""
        return executorch_call_delegate(self, *args)

    def buffer(
        self,
        extract_delegate_segments: bool = False,
        segment_alignment: int = 128,
        constant_tensor_alignment: int | None = None,
        delegate_alignment: int | None = None,
        memory_planning: Any = None,
    ) -> bytes:
        """A program file whose only method calls this delegate."""
        manager = self._lowered(
            memory_planning,
            extract_delegate_segments=extract_delegate_segments,
            segment_alignment=segment_alignment,
            constant_tensor_alignment=constant_tensor_alignment,
            delegate_alignment=delegate_alignment,
        )
        return bytes(manager.buffer)

    def program(self, emit_stacktrace: bool = False, memory_planning: Any = None) -> Program:
        """The program of `buffer` before serialisation."""
        manager = self._lowered(memory_planning, emit_stacktrace=emit_stacktrace)
        program: Program = manager.executorch_program
        return program

    def _lowered(self, memory_planning: Any, **settings: Any) -> ExecutorchProgramManager:
        from executorch_py.exir.program import EdgeProgramManager
        from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig

        if memory_planning is not None:
            settings["memory_planning_pass"] = memory_planning
        unchecked = EdgeCompileConfig(_check_ir_validity=False)
        manager = EdgeProgramManager(self._calling_program(), compile_config=unchecked)
        return manager.to_executorch(ExecutorchBackendConfig(**settings))

    def _calling_program(self) -> ExportedProgram:
        """inputs → delegate call → outputs, as an exported program without data of its own."""
        ep, graph = self._original_exported_program, fx.Graph()
        root = torch.nn.Module()
        signature = ep.graph_signature
        wanted = set(signature.user_inputs)
        inputs = []
        for node in ep.graph.nodes:
            if node.op == "placeholder" and node.name in wanted:
                inputs.append(graph.node_copy(node))
        written = signature.buffers_to_mutate
        outputs = [
            out
            for out in flat_outputs(ep.graph)
            if not (isinstance(out, fx.Node) and out.name in written)
        ]
        lowered = graph.get_attr(get_lowered_module_name(root, self))
        call = graph.call_function(executorch_call_delegate, (lowered, *inputs))
        call.meta["val"] = [out.meta["val"] for out in outputs]
        results = []
        for i, value in enumerate(call.meta["val"]):
            result = graph.call_function(operator.getitem, (call, i))
            result.meta["val"] = value
            results.append(result)
        graph.output(tuple(results))
        gm = fx.GraphModule(root, graph)
        in_spec = pytree.tree_structure((tuple(0 for _ in inputs), {}))
        out_spec = pytree.tree_structure(tuple(0 for _ in results))
        call_signature = ModuleCallSignature([], [], in_spec, out_spec)
        return ExportedProgram(
            root=gm,
            graph=graph,
            graph_signature=ExportGraphSignature(
                [InputSpec(InputKind.USER_INPUT, TensorArgument(n.name), None) for n in inputs],
                [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in results],
            ),
            state_dict={},
            range_constraints=dict(ep.range_constraints),
            module_call_graph=[ModuleCallEntry("", call_signature)],
            constants={},
            verifiers=[ep.verifier],
        )


def get_lowered_submodules(
    graph_module: fx.GraphModule,
) -> list[tuple[str, LoweredBackendModule, fx.Node]]:
    """(attribute, delegate, calling node) of each delegate call directly in the graph."""
    found = []
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target is executorch_call_delegate:
            name = str(node.args[0].target)
            module = getattr(graph_module, name)
            assert isinstance(module, LoweredBackendModule)
            found.append((name, module, node))
    return found


def get_lowered_backend_modules(graph_module: fx.GraphModule) -> list[LoweredBackendModule]:
    """The delegates that the graph calls directly, in order."""
    return [module for _, module, _ in get_lowered_submodules(graph_module)]
