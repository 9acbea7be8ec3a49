"""EdgeProgramManager: the edge programs of a file, by method, on their way to the runtime.

Every step returns a new manager; `to_executorch` works on copies, so it may be called again and
gives the same bytes. Lowering itself is backend/ and program/executorch.py.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_manager import PassManager as GraphModulePassManager

from executorch_py.exir.dialects.verifier import EXIREdgeDialectVerifier
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import copy_program, generate_code
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.passes.user.pass_manager import (
    ExportedProgramPassManager,
    PassType,
    holds_program,
    run_passes,
)
from executorch_py.exir.program.config import EdgeCompileConfig

if TYPE_CHECKING:
    from executorch_py.exir.backend.delegation_summary import DelegationSummary
    from executorch_py.exir.backend.partitioner import Partitioner
    from executorch_py.exir.program.config import ExecutorchBackendConfig
    from executorch_py.exir.program.executorch import ExecutorchProgramManager

Passes: TypeAlias = (
    Sequence[PassType]
    | dict[str, Sequence[PassType]]
    | ExportedProgramPassManager
    | GraphModulePassManager
)


def _collect_named_data(programs: dict[str, ExportedProgram]) -> Any:
    """The named data of every delegate of every method, merged: one store for the file."""
    from executorch_py.exir.serialize.named_data import NamedDataStore

    store = NamedDataStore()
    for ep in programs.values():
        for gm in graph_modules(ep.graph_module):
            for node in gm.graph.find_nodes(op="get_attr"):
                delegate = getattr(gm, str(node.target), None)
                output = getattr(delegate, "named_data_store_output", None)
                if output is not None:
                    store.merge_named_data_store(output)
    return store


class EdgeProgramManager:
    """One or more programs in the edge dialect, with constant methods and named data."""

    def __init__(
        self,
        edge_programs: ExportedProgram | dict[str, ExportedProgram],
        constant_methods: dict[str, Any] | None = None,
        compile_config: EdgeCompileConfig | None = None,
        core_aten_ops_exception_list: list[torch._ops.OpOverload] | None = None,
        preserve_ops: list[torch._ops.OpOverload] | None = None,
    ) -> None:
        self.compile_config = compile_config or EdgeCompileConfig()
        programs = edge_programs if isinstance(edge_programs, dict) else {"forward": edge_programs}
        verifier = EXIREdgeDialectVerifier(
            self.compile_config,
            core_aten_ops_exception_list=core_aten_ops_exception_list,
            preserve_ops=preserve_ops,
        )
        for program in programs.values():
            verifier(program)
        self._edge_programs: dict[str, ExportedProgram] = programs
        self._config_methods = constant_methods
        self._named_data_store = _collect_named_data(programs)
        self._etrecord: Any = None

    @property
    def methods(self) -> set[str]:
        """Names of the methods that run."""
        return set(self._edge_programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the methods that return constants."""
        return set(self._config_methods or ())

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The edge program of a method; KeyError names the methods there are."""
        if method_name not in self._edge_programs:
            there = sorted(self._edge_programs)
            raise KeyError(f"method_name: expected one of {there}, got {method_name!r}")
        return self._edge_programs[method_name]

    def transform(
        self, passes: Passes, compile_config: EdgeCompileConfig | None = None
    ) -> EdgeProgramManager:
        """A manager with the passes applied: a list or pass manager for all methods, or a dict.

        This manager stays as it is, unless a pass has its program, `P(edge.exported_program())`:
        such a pass changes that program, as with upstream.
        """
        config = compile_config or self.compile_config
        if isinstance(passes, dict):
            _check_methods("transform", passes, self._edge_programs)
        programs: dict[str, ExportedProgram] = {}
        for name, program in self._edge_programs.items():
            if isinstance(passes, dict) and name not in passes:
                programs[name] = copy_program(program)
            else:
                chosen = passes[name] if isinstance(passes, dict) else passes
                own = program if holds_program(chosen, program) else copy_program(program)
                changed = run_passes(own, chosen)
                programs[name] = copy_program(program) if changed is program else changed
        return self._successor(programs, config)

    def to_backend(self, partitioner: Partitioner | dict[str, Partitioner]) -> EdgeProgramManager:
        """A manager whose programs have the nodes that the partitioner selects lowered to its
        backends.
        """
        from executorch_py.exir.backend.backend_api import (
            MethodProgramsPartitionerSpec,
            to_backend,
        )

        chosen = (
            partitioner
            if isinstance(partitioner, dict)
            else {name: partitioner for name in self._edge_programs}
        )
        _check_methods("to_backend", chosen, self._edge_programs)
        copies = {name: copy_program(ep) for name, ep in self._edge_programs.items()}
        programs = to_backend(MethodProgramsPartitionerSpec(copies, chosen))
        # A backend may leave operators of its own around its delegates.
        return self._successor(programs, self._unchecked_config())

    def to_executorch(
        self, config: ExecutorchBackendConfig | None = None
    ) -> ExecutorchProgramManager:
        """Lower to the runtime's dialect, plan memory, emit and serialise."""
        from executorch_py.exir.program.executorch import lower_to_executorch

        return lower_to_executorch(self, config)

    def delegation_summary(self) -> DelegationSummary:
        """A summary of the nodes inside and outside delegates, with reasons: print or read it."""
        from executorch_py.exir.backend.delegation_summary import summary_of_programs

        return summary_of_programs(self._edge_programs)

    def _unchecked_config(self) -> EdgeCompileConfig:
        config = copy.copy(self.compile_config)
        config._check_ir_validity = False
        return config

    def _successor(
        self, programs: dict[str, ExportedProgram], config: EdgeCompileConfig
    ) -> EdgeProgramManager:
        for program in programs.values():
            generate_code(program)
        made = EdgeProgramManager(programs, copy.deepcopy(self._config_methods), config)
        made._etrecord = self._etrecord
        return made


def _check_methods(call: str, given: dict[str, Any], programs: dict[str, ExportedProgram]) -> None:
    unknown = sorted(set(given) - set(programs))
    if unknown:
        raise ExportError(
            ExportErrorType.INVALID_INPUT_TYPE,
            f"{call}: expected methods of {sorted(programs)}, got {unknown}",
        )
