"""to_backend: lower a whole program, the partitions of one program, or those of several methods.

Partition → extract each tag's nodes → let each backend preprocess all of its partitions at once →
fill the delegates. The programs given are not changed. Relies on extract.py for the graph
surgery.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.canonical_partitioners.duplicate_constant_node_pass import (
    duplicate_shared_constants,
)
from executorch_py.exir.backend.canonical_partitioners.duplicate_marked_nodes import (
    duplicate_marked_nodes,
)
from executorch_py.exir.backend.extract import Extracted, Extraction, number_in_graph_order
from executorch_py.exir.backend.graph_checks import is_identical_graph
from executorch_py.exir.backend.lowered_module import LoweredBackendModule
from executorch_py.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
    check_is_partitioner,
)
from executorch_py.exir.ir.graph import copy_program
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.schema import CompileSpec

_validation: ContextVar[bool] = ContextVar("validation", default=True)


def disable_validation() -> None:
    """Disable the check that partitioners leave the graph unchanged."""
    _validation.set(False)


@contextmanager
def validation_disabled() -> Generator[None, None, None]:
    """Context manager: that check is disabled inside its block."""
    token = _validation.set(False)
    try:
        yield
    finally:
        _validation.reset(token)


@dataclass
class MethodProgramsPartitionerSpec:
    """Programs and partitioners by method name."""

    method_to_edge_program: Mapping[str, ExportedProgram]
    method_to_partitioner: Mapping[str, Partitioner]


@singledispatch
def to_backend(*args: Any) -> Any:
    """Lower to a backend; three forms, chosen by the first argument.

    (backend_id, program, compile_specs) -> LoweredBackendModule: the whole program.
    (program, partitioner) -> ExportedProgram: the parts that the partitioner tags.
    (MethodProgramsPartitionerSpec) -> dict of programs: the same for several methods at once.
    """
    raise TypeError(
        "to_backend: expected (backend_id, program, compile_specs), (program, partitioner) or a "
        f"MethodProgramsPartitionerSpec, got {[type(arg).__name__ for arg in args]}"
    )


@to_backend.register
def _(
    backend_id: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
) -> LoweredBackendModule:
    backend = _backend(backend_id)
    copied = backend.copy_exported_program_for_preprocess(edge_program, compile_specs)
    module = LoweredBackendModule(edge_program, backend_id, b"", compile_specs)
    _fill(module, backend.preprocess(copied, compile_specs))
    return module


@to_backend.register
def _(edge_program: ExportedProgram, partitioner_instance: Partitioner) -> ExportedProgram:
    spec = MethodProgramsPartitionerSpec(
        {"forward": edge_program}, {"forward": partitioner_instance}
    )
    return lower_methods(spec)["forward"]


@to_backend.register
def _(
    method_edge_program_partitioners: MethodProgramsPartitionerSpec,
) -> dict[str, ExportedProgram]:
    return lower_methods(method_edge_program_partitioners, in_graph_order=True)


def lower_methods(
    spec: MethodProgramsPartitionerSpec, in_graph_order: bool = False
) -> dict[str, ExportedProgram]:
    """The programs with their partitions lowered, in the order given.

    Delegates are numbered as their tags are listed, or as the graph calls them.
    """
    programs = dict(spec.method_to_edge_program)
    waiting: dict[str, dict[str, list[Extracted]]] = {}
    for method, partitioner in spec.method_to_partitioner.items():
        if method not in programs:
            raise ValueError(
                f"partitioner: expected one of methods {list(programs)}, got {method!r}"
            )
        programs[method], extracted = _partition(programs[method], partitioner)
        if in_graph_order:
            for gm in graph_modules(programs[method].graph_module):
                number_in_graph_order(gm, [part.module for part in extracted])
        for part in extracted:
            by_method = waiting.setdefault(part.spec.backend_id, {})
            by_method.setdefault(method, []).append(part)
    for backend_id, by_method in waiting.items():
        _preprocess(backend_id, by_method)
    for method in spec.method_to_partitioner:
        for gm in graph_modules(programs[method].graph_module):
            gm.recompile()  # once: the time of one extraction would be that of the whole graph
        programs[method]._validate()
    return programs


def _partition(
    program: ExportedProgram, partitioner: Partitioner
) -> tuple[ExportedProgram, list[Extracted]]:
    """A copy of the program with delegate calls, whose delegates still wait for their payloads."""
    check_is_partitioner(partitioner)
    transform = getattr(partitioner, "transform_before_partition", None)
    if transform is not None:
        program = transform(copy_program(program))
    result = partitioner(copy_program(program))
    tagged = _checked(result, program, partitioner)
    for gm in list(graph_modules(tagged.graph_module)):
        duplicate_marked_nodes(gm, result.partition_tags)
    duplicate_shared_constants(tagged, list(result.partition_tags))
    extracted = []
    for gm in list(graph_modules(tagged.graph_module)):
        for tag, where in result.partition_tags.items():
            part = Extraction(gm, tagged, tag, where).run()
            if part is not None:
                extracted.append(part)
        for node in gm.graph.nodes:
            node.meta.pop("delegation_tag", None)
    tagged._example_inputs = None
    return tagged, extracted


def _checked(
    result: PartitionResult, program: ExportedProgram, partitioner: Partitioner
) -> ExportedProgram:
    who = type(partitioner).__name__
    if not isinstance(result, PartitionResult):
        raise TypeError(
            f"{who}.partition(): expected PartitionResult(tagged_exported_program, "
            f"partition_tags), got {type(result).__name__}"
        )
    if result.partition_tags is None:
        raise AssertionError(f"{who}: expected partition_tags, a dict of DelegationSpec, got None")
    for tag, spec in result.partition_tags.items():
        if not isinstance(spec, DelegationSpec):
            raise TypeError(
                f"{who}: expected DelegationSpec(backend_id, compile_specs) for tag '{tag}', "
                f"got a {type(spec).__name__}"
            )
    tagged = result.tagged_exported_program
    if _validation.get() and not is_identical_graph(tagged.graph_module, program.graph_module):
        raise AssertionError(f"the partitioner {who} should not modify the graph module, only tag")
    known = set(result.partition_tags)
    for i, gm in enumerate(graph_modules(tagged.graph_module)):
        unknown = {
            node.name: str(node.meta["delegation_tag"])
            for node in gm.graph.nodes
            if node.op == "call_function" and _tag(node) is not None and _tag(node) not in known
        }
        if unknown:
            _check_unknown(unknown, _tags_of(program, i), sorted(known), who, is_branch=i > 0)
    _check_inputs(tagged, known, who)
    return tagged


def _tag(node: fx.Node) -> str | None:
    tag: str | None = node.meta.get("delegation_tag")
    return tag


def _tags_of(program: ExportedProgram, number: int) -> dict[str, str | None]:
    """The tags by node in one graph of a program, by its number."""
    graphs = list(graph_modules(program.graph_module))
    nodes = graphs[number].graph.nodes if number < len(graphs) else ()
    return {node.name: _tag(node) for node in nodes}


def _check_unknown(
    unknown: Mapping[str, str],
    around: Mapping[str, str | None],
    known: Sequence[str],
    who: str,
    is_branch: bool,
) -> None:
    """ValueError for a tag without a specification; a warning in a branch.

    A backend may partition its own part: nodes there have tags of the partition around it.
    Partitioners written for upstream tag branches and drop the specifications: upstream leaves
    these nodes to kernels.
    """
    for name, tag in unknown.items():
        if tag == around.get(name):
            continue
        message = (
            f"{who} tagged '{name}' with '{tag}', which partition_tags does not have: "
            f"they are {known}; map every tag to a DelegationSpec there"
        )
        if not is_branch:
            raise ValueError(message)
        warnings.warn(f"{message}. Kernels compute this node", stacklevel=2)


def _check_inputs(program: ExportedProgram, known: set[str], who: str) -> None:
    """Refuse tags on inputs of the user, which no delegate can own."""
    data = {spec.arg.name for spec in program.graph_signature.input_specs if spec.target}
    for node in program.graph.nodes:
        tag = node.meta.get("delegation_tag")
        if node.op == "placeholder" and tag in known and node.name not in data:
            raise RuntimeError(
                f"{who}: expected tags on operators, parameters, buffers and constants, got tag "
                f"'{tag}' on the input '{node.name}'; inputs must not be tagged"
            )


def _preprocess(backend_id: str, by_method: dict[str, list[Extracted]]) -> None:
    backend = _backend(backend_id)
    specs = {m: [part.spec.compile_specs for part in parts] for m, parts in by_method.items()}
    programs = {
        method: [
            backend.copy_exported_program_for_preprocess(
                part.module.original_module, part.spec.compile_specs
            )
            for part in parts
        ]
        for method, parts in by_method.items()
    }
    results = backend.preprocess_multimethod(programs, specs)
    for method, parts in by_method.items():
        if len(results.get(method, ())) != len(parts):
            raise ValueError(
                f"{backend_id}: expected {len(parts)} results, one per partition of method "
                f"'{method}', got {len(results.get(method, ()))}"
            )
        for part, result in zip(parts, results[method], strict=True):
            _fill(part.module, result)


def _fill(module: LoweredBackendModule, result: PreprocessResult) -> None:
    module._processed_bytes = result.processed_bytes
    module._named_data_store_output = result.data_store_output
    module.meta = {"debug_handle_map": result.debug_handle_map}
    if result._delegate_info_meta is not None:
        module.meta["_delegate_info_meta"] = result._delegate_info_meta


def _backend(backend_id: str) -> type[BackendDetails]:
    known = {cls.__name__: cls for cls in BackendDetails.__subclasses__()}
    if backend_id not in known:
        raise NotImplementedError(
            f"Backend {backend_id} was not found. Import the module that defines it; "
            f"imported are {sorted(known)}"
        )
    return known[backend_id]
