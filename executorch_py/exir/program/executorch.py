"""to_executorch: edge programs become a planned, emitted and serialised program.

Runs the pipeline of passes/pipeline.py on copies, so the edge programs stay as they were and a
second call gives the same bytes. Emission and byte formats are emit/ and serialize/; `run` and
`verify` use the runtime through upper_floors.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import TextIOBase
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils._pytree import tree_leaves, tree_unflatten

from executorch_py.atomic_file import replacing
from executorch_py.exir import schema
from executorch_py.exir.ir.graph import all_graph_modules, copy_program
from executorch_py.exir.passes.base import FxPass, GraphPass
from executorch_py.exir.passes.lower.memory_planning import MemoryPlanningPass
from executorch_py.exir.passes.lower.sym_shape_eval import ConstraintBasedSymShapeEvalPass
from executorch_py.exir.passes.pipeline import GIVEN, TO_EXECUTORCH
from executorch_py.exir.passes.runner import run_pipeline, wanted_passes
from executorch_py.exir.passes.user.pass_manager import run_passes
from executorch_py.exir.program.arguments import Arguments, model_arguments
from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig
from executorch_py.exir.program.upper_floors import compare_with_model, load_method

if TYPE_CHECKING:
    from executorch_py.exir.backend.delegation_summary import DelegationSummary
    from executorch_py.exir.emit import EmitterOutput
    from executorch_py.exir.program.managers import EdgeProgramManager
    from executorch_py.exir.program.upper_floors import Method, ParityReport
    from executorch_py.exir.serialize.cord import Cord


def lower_to_executorch(
    manager: EdgeProgramManager, config: ExecutorchBackendConfig | None = None
) -> ExecutorchProgramManager:
    """Lower all methods of an edge manager. The manager and its programs are not changed."""
    config = config if config is not None else ExecutorchBackendConfig()
    if not isinstance(config, ExecutorchBackendConfig):
        raise TypeError(
            f"config: expected ExecutorchBackendConfig(…), got a {type(config).__name__}"
        )
    planners: list[Any] = []
    programs: dict[str, ExportedProgram] = {}
    for name, program in manager._edge_programs.items():
        settings = _for_method(config, name)
        lowered = lower_method(copy_program(program), settings)
        plan_memory(lowered, settings.memory_planning_pass)
        planners.append(settings.memory_planning_pass)
        programs[name] = lowered
    for planner in {id(p): p for p in planners}.values():
        if hasattr(planner, "run_multimethod"):
            planner.run_multimethod()
    named_data = manager._named_data_store.get_named_data_store_output()
    result = ExecutorchProgramManager(programs, manager._config_methods, config, named_data)
    if manager._etrecord is not None:
        result._etrecord = copy.copy(manager._etrecord)
        result._etrecord.add_executorch_program(result)
    return result


def _for_method(config: ExecutorchBackendConfig, name: str) -> ExecutorchBackendConfig:
    """The settings of one method: passes given per method are picked, stateful ones copied."""

    def pick(value: Any, default: Callable[[], Any]) -> Any:
        if isinstance(value, dict):
            return value[name] if name in value else default()
        return value

    return replace(
        config,
        memory_planning_pass=pick(config.memory_planning_pass, MemoryPlanningPass),
        sym_shape_eval_pass=pick(config.sym_shape_eval_pass, ConstraintBasedSymShapeEvalPass),
    )


def lower_method(program: ExportedProgram, config: ExecutorchBackendConfig) -> ExportedProgram:
    """All passes before memory planning, on a program that may be changed."""
    if config.passes:
        program = run_passes(program, config.passes)
    run_pipeline(TO_EXECUTORCH, program, config, GIVEN)
    return program


def plan_memory(program: ExportedProgram, planner: Any) -> None:
    """Plan a lowered method with a planning pass of this package or of the user."""
    if hasattr(planner, "run"):
        result = planner.run(program.graph_module, program.graph_signature)
    else:
        result = planner(program.graph_module)
    if isinstance(result, PassResult):
        program._graph_module = result.graph_module


def edge_to_executorch_passes(
    config: ExecutorchBackendConfig,
    name: str | None = None,
    edge_compile_config: EdgeCompileConfig | None = None,
) -> list[Any]:
    """The graph passes that `to_executorch` runs for a method, in order.

    `edge_compile_config` is upstream's; the passes read layouts from the graph, and do not need it.
    """
    settings = _for_method(config, name or "forward")
    passes = list(settings.passes)
    for one in wanted_passes(TO_EXECUTORCH, settings):
        if isinstance(one, FxPass):
            passes.append(one.graph_pass)
        elif isinstance(one, GraphPass):
            passes.append(one)
    return passes


class ExecutorchProgramManager:
    """A finished program: its bytes, tables and graphs, and methods that run and check it."""

    def __init__(
        self,
        execution_programs: dict[str, ExportedProgram],
        config_methods: Mapping[str, Any] | None = None,
        backend_config: ExecutorchBackendConfig | None = None,
        named_data: Any = None,
    ) -> None:
        from executorch_py.exir.emit import emit_program
        from executorch_py.exir.emit.artifacts import serialize_for_executorch
        from executorch_py.exir.target.manifest import check_against_kernels

        self._config = backend_config if backend_config is not None else ExecutorchBackendConfig()
        self._execution_programs = execution_programs
        self._config_methods = config_methods
        self._named_data = named_data
        self._etrecord: Any = None
        self._bytes: bytes | None = None
        check_against_kernels(execution_programs, self._config.target)
        self._emitter_output: EmitterOutput = emit_program(
            execution_programs,
            self._config.emit_stacktrace,
            config_methods,
            self._config.emit_mutable_buffer_names,
        )
        self._pte_data: Cord
        self._tensor_data: dict[str, Cord]
        self._pte_data, self._tensor_data = serialize_for_executorch(
            self._emitter_output, self._config, None, named_data
        )
        for program in execution_programs.values():
            for module in all_graph_modules(program.graph_module):
                module.recompile()

    # ---- contents

    @property
    def methods(self) -> set[str]:
        """Names of the methods that run."""
        return set(self._execution_programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the methods that return constants."""
        return set(self._config_methods or ())

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The lowered program of a method; KeyError names the methods there are."""
        if method_name not in self._execution_programs:
            there = sorted(self._execution_programs)
            raise KeyError(f"method_name: expected one of {there}, got {method_name!r}")
        return self._execution_programs[method_name]

    @property
    def executorch_program(self) -> schema.Program:
        """The program's tables, before they became bytes."""
        return self._emitter_output.program

    @property
    def debug_handle_map(self) -> dict[str, dict[int, int | list[int]]]:
        """Method → instruction → debug handle(s) of the edge nodes behind it."""
        return self._emitter_output.debug_handle_map

    @property
    def delegate_map(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Method → instruction → name and debug map of the delegate it calls."""
        return self._emitter_output.method_to_delegate_debug_id_map

    @property
    def instruction_id_to_num_outs_map(self) -> dict[str, dict[int, int]]:
        """Method → instruction → number of tensors it writes."""
        return self._emitter_output.instruction_id_to_num_outs_map

    def delegation_summary(self) -> DelegationSummary:
        """A summary of the delegates of the finished program, of its other kernels, and why."""
        from executorch_py.exir.backend.delegation_summary import summary_of_programs

        return summary_of_programs(self._execution_programs)

    def get_etrecord(self) -> Any:
        """The record for tools; RuntimeError without `generate_etrecord=True`."""
        if self._etrecord is None:
            raise RuntimeError(
                "expected a program lowered with generate_etrecord=True, an argument of to_edge "
                "and to_edge_transform_and_lower; got one without an ETRecord"
            )
        return self._etrecord

    def dump_executorch_program(self, verbose: bool = False, out: TextIO | None = None) -> None:
        """Print values and instructions of every method; with `verbose` the tables one to one."""
        from executorch_py.exir.print_program import pretty_print, print_program

        if verbose:
            pretty_print(self._emitter_output.program, out=out)
        else:
            print_program(
                self._emitter_output.program,
                show_meminfo=True,
                mark_dynamic_shape_tensor=True,
                out=out,
            )

    # ---- files

    @property
    def buffer(self) -> bytes:
        """The whole file as bytes, made once."""
        if self._bytes is None:
            self._bytes = bytes(self._pte_data)
        return self._bytes

    def write_to_file(self, open_file: BinaryIO) -> None:
        """Write the program to an open binary file, weights straight from their tensors."""
        _check_open_for_bytes(open_file)
        self._pte_data.write_to_file(open_file)

    def save(self, path: str | Path) -> None:
        """Write the program to `path`, which must end in `.pte`; a file there is replaced whole."""
        if not isinstance(path, (str, PathLike)):
            raise TypeError(f"path: expected the name of a .pte file, got {path!r}")
        if not str(path).endswith(".pte"):
            raise ValueError(f"path: expected a name that ends in .pte, got {path}")
        with replacing(path) as file:
            self.write_to_file(file)

    def write_tensor_data_to_file(self, outdir: str | Path) -> None:
        """Write each data file to a folder, under its tag (`.ptd` is added where missing)."""
        if not isinstance(outdir, (str, PathLike)):
            raise TypeError(f"outdir: expected the name of a folder, got {outdir!r}")
        folder = Path(outdir)
        folder.mkdir(parents=True, exist_ok=True)
        for tag, data in self._tensor_data.items():
            name = tag if tag.endswith(".ptd") else f"{tag}.ptd"
            with replacing(folder / name) as file:
                data.write_to_file(file)

    # ---- execution

    def run(self, *inputs: Any, method: str = "forward", **kwargs: Any) -> Any:
        """Run the file's bytes on the C runtime in this process; outputs in the model's structure.

        Inputs as for the model itself, or as the one tuple that was given to torch.export. Every
        call loads the program anew, so mutable state starts as the file says. A training program
        returns a list: the model's outputs, gradients, and the weights that they belong to.
        """
        tree = self.exported_program(method).call_spec.out_spec
        arguments = self._arguments(method, inputs, kwargs)
        outputs = list(self._load(method).execute(tree_leaves(arguments)))
        if tree is None or tree.num_leaves != len(outputs):
            return outputs
        return tree_unflatten(outputs, tree)

    def verify(
        self,
        model: Callable[..., Any],
        *inputs: Any,
        method: str = "forward",
        rtol: float | None = None,
        atol: float | None = None,
        **kwargs: Any,
    ) -> ParityReport:
        """Compare the program's outputs with eager torch, at all size bounds of its inputs.

        Inputs as for `run`. Unless a tolerance is given, outputs that were quantized last may be
        off by one quantization step; the report says so, and gives the step.
        """
        options = {"method": method, "rtol": rtol, "atol": atol, **kwargs}
        return compare_with_model(self, model, *inputs, **options)

    def _load(self, method: str) -> Method:
        """The method, loaded anew from the bytes."""
        data = [bytes(file) for file in self._tensor_data.values()]
        return load_method(self.buffer, data, method)

    def _arguments(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        spec = self.exported_program(method).call_spec.in_spec
        return model_arguments(spec, args, kwargs, lambda: str(self._load(method).signature))


def _check_open_for_bytes(file: Any) -> None:
    if not hasattr(file, "write"):
        raise TypeError(
            f"open_file: expected a file open for writing bytes, got {file!r}: write to a path "
            "with save(path)"
        )
    if isinstance(file, TextIOBase):
        raise TypeError("open_file: expected a file open for writing bytes, got text: open 'wb'")
