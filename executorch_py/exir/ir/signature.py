"""Signatures and ranges of an ExportedProgram, updated after passes rewrote its graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch._export.verifier import Verifier
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
)
from torch.fx import GraphModule, Node

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.fake_values import fake_mode_of
from executorch_py.exir.ir.graph import flat_outputs, output_node, placeholders


def _renamed(arg: Any, node: Any) -> Any:
    if isinstance(arg, ConstantArgument) or not isinstance(node, Node):
        return arg
    return dataclasses.replace(arg, name=node.name)


def updated_signature(old: ExportGraphSignature, gm: GraphModule) -> ExportGraphSignature:
    """`old` with the names that inputs and outputs have in `gm`; their number must not change."""
    inputs = placeholders(gm.graph)
    outputs: Sequence[Any] = output_node(gm.graph).args[0]
    if len(inputs) != len(old.input_specs) or len(outputs) != len(old.output_specs):
        raise ExportError(
            ExportErrorType.VIOLATION_OF_SPEC,
            f"a pass changed the interface of the program: the graph has {len(inputs)} inputs and "
            f"{len(outputs)} outputs, its signature {len(old.input_specs)} and "
            f"{len(old.output_specs)}. Write a pass over ExportedProgram (ExportedProgramPassBase) "
            "that changes both.",
        )
    return ExportGraphSignature(
        input_specs=[
            InputSpec(s.kind, _renamed(s.arg, node), s.target, persistent=s.persistent)
            for s, node in zip(old.input_specs, inputs, strict=True)
        ],
        output_specs=[
            OutputSpec(s.kind, _renamed(s.arg, node), _renamed_target(old, s, inputs))
            for s, node in zip(old.output_specs, outputs, strict=True)
        ],
    )


def _renamed_target(old: ExportGraphSignature, spec: OutputSpec, inputs: list[Node]) -> str | None:
    """Mutated user inputs are named by placeholder, all other targets by parameter or buffer."""
    for input_spec, node in zip(old.input_specs, inputs, strict=True):
        if getattr(input_spec.arg, "name", None) == spec.target and input_spec.target is None:
            return str(node.name)
    target: str | None = spec.target
    return target


def with_written_parameters_as_buffers(signature: ExportGraphSignature) -> ExportGraphSignature:
    """The same signature, parameters that the model writes to declared as buffers.

    A program keeps state in mutable buffers only; a parameter keeps its name and value.
    """
    kind = OutputKind.PARAMETER_MUTATION
    written = {spec.target for spec in signature.output_specs if spec.kind is kind}
    if not written:
        return signature
    return ExportGraphSignature(
        input_specs=[
            InputSpec(InputKind.BUFFER, s.arg, s.target, persistent=True)
            if s.kind is InputKind.PARAMETER and s.target in written
            else s
            for s in signature.input_specs
        ],
        output_specs=[
            OutputSpec(OutputKind.BUFFER_MUTATION, s.arg, s.target) if s.kind is kind else s
            for s in signature.output_specs
        ],
    )


def updated_range_constraints(gm: GraphModule) -> dict[Any, Any]:
    """Ranges of the symbols in the values of `gm`, from its shape environment."""
    mode = fake_mode_of(gm)
    env = mode.shape_env if mode is not None else None
    if env is None:
        symbols = [
            n.meta["val"] for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.SymInt)
        ]
        if not symbols:
            return {}
        env = symbols[0].node.shape_env
    return {env.replacements.get(k, k): v for k, v in env.var_to_range.items()} | {
        k: v for k, v in env.var_to_range.items() if k not in env.replacements
    }


def program_with_graph(
    ep: ExportedProgram,
    gm: GraphModule,
    verifiers: list[type[Verifier]] | None = None,
    signature: ExportGraphSignature | None = None,
) -> ExportedProgram:
    """A new program: `ep` with the graph `gm`; verified by its constructor."""
    new = ExportedProgram(
        root=gm,
        graph=gm.graph,
        graph_signature=signature or updated_signature(ep.graph_signature, gm),
        state_dict=ep.state_dict,
        range_constraints=ep.range_constraints,
        module_call_graph=ep.module_call_graph,
        example_inputs=ep.example_inputs,
        constants=ep.constants,
        verifiers=verifiers or list(ep.verifiers),
    )
    new.graph_module.meta.update(gm.meta)
    return new


def name_outputs(program: ExportedProgram) -> None:
    """Output names of the signature follow the nodes that ended up producing them."""
    specs = program.graph_signature.output_specs
    leaves = flat_outputs(program.graph_module.graph)
    program._graph_signature.output_specs = [
        dataclasses.replace(spec, arg=dataclasses.replace(spec.arg, name=leaf.name))
        if isinstance(leaf, Node) and hasattr(spec.arg, "name")
        else spec
        for spec, leaf in zip(specs, leaves, strict=True)
    ]
