"""Oracle for lowered programs: runs them with eager torch inside the memory that was planned.

Every planned tensor is a view of one byte array per memory id, at its planned offset, so a wrong
lifetime, a wrong alias or a wrong in-place write gives wrong numbers. Arenas start as garbage and
are kept between calls, as on a device. Static shapes, no delegates, no control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


def lower(model: torch.nn.Module, inputs: Sequence[Any], config: Any = None) -> ExportedProgram:
    """Export, convert, lower and plan one method, without emitting it."""
    from executorch_py.exir import to_edge
    from executorch_py.exir.ir.graph import copy_program
    from executorch_py.exir.program.config import ExecutorchBackendConfig
    from executorch_py.exir.program.executorch import lower_method, plan_memory

    config = config or ExecutorchBackendConfig()
    with torch.no_grad():
        edge = to_edge(torch.export.export(model, tuple(inputs)))
        program = lower_method(copy_program(edge.exported_program()), config)
        plan_memory(program, config.memory_planning_pass)
    return program


class ArenaMachine:
    """Executes one lowered method; state lives in the arenas."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph = program.graph_module.graph
        sizes = program.graph_module.meta["non_const_buffer_sizes"]
        self.arenas = [torch.full((max(size, 1),), 0xA5, dtype=torch.uint8) for size in sizes]
        self.placed: dict[int, torch.Tensor] = {}
        self.signature = program.graph_signature
        for node in self.graph.nodes:
            fqn = self.signature.inputs_to_buffers.get(node.name)
            if fqn is not None and node.meta["spec"].mem_id is not None:
                self.tensor(node.meta["spec"]).copy_(program.state_dict[fqn])

    def tensor(self, spec: Any) -> torch.Tensor:
        """The planned tensor of a spec."""
        if id(spec) not in self.placed:
            arena = self.arenas[spec.mem_id][spec.mem_offset : spec.mem_offset + spec.nbytes()]
            flat = arena.view(spec.dtype)
            self.placed[id(spec)] = flat.as_strided(spec.shape, spec.stride)
        return self.placed[id(spec)]

    def __call__(self, *inputs: Any) -> list[Any]:
        from executorch_py.exir.ir.graph import constant_tensors

        constants = constant_tensors(self.program)
        given = iter(pytree.tree_leaves(inputs))
        env: dict[fx.Node, Any] = {}
        for node in self.graph.nodes:
            if node.op == "placeholder":
                env[node] = self._placeholder(node, constants, given)
            elif node.op == "call_function":
                env[node] = self._call(node, env)
        outputs = pytree.tree_leaves([_read(a, env) for a in self._user_outputs()])
        return [o.clone() if isinstance(o, torch.Tensor) else o for o in outputs]

    def _placeholder(self, node: fx.Node, constants: dict[str, Any], given: Any) -> Any:
        if node.name in constants:
            return constants[node.name].detach()
        if node.name in self.signature.inputs_to_buffers:
            return self.tensor(node.meta["spec"])
        value = next(given)
        return self.tensor(node.meta["spec"]).copy_(value)

    def _call(self, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
        from executorch_py.exir import memory

        if node.target in (memory.alloc, memory.view, memory.concat, memory.patch):
            return self.tensor(node.meta["spec"])
        return node.target(*_read(node.args, env), **_read(node.kwargs, env))  # type: ignore[operator]

    def _user_outputs(self) -> list[Any]:
        output = self.graph.output_node()
        kinds = [spec.kind.name for spec in self.signature.output_specs]
        return [a for a, kind in zip(output.args[0], kinds, strict=True) if kind == "USER_OUTPUT"]


def _read(value: Any, env: dict[fx.Node, Any]) -> Any:
    return fx.node.map_arg(value, lambda n: env[n])


@pytest.fixture(name="lower")
def lower_fixture() -> Callable[..., ExportedProgram]:
    return lower


@pytest.fixture(name="machine")
def machine_fixture() -> type[ArenaMachine]:
    return ArenaMachine


@pytest.fixture
def operators() -> Callable[[ExportedProgram], list[str]]:
    """The operator calls of a lowered program, in order."""

    def names(program: ExportedProgram) -> list[str]:
        from executorch_py.exir.ir.op_traits import op_key

        found = [op_key(node.target) for node in program.graph_module.graph.nodes]
        return [name for name in found if name]

    return names
