"""External constants: tensors that go to a data file (`.ptd`) instead of the program.

Placeholders of external constants get `meta["constant_tag"]`, the name of the file; emission and
serialisation do the rest. Constants that the exporter itself lifted out of the code always stay in
the program.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.ir.graph import constant_tensors, placeholders
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

DEFAULT_EXTERNAL_FILE = "_default_external_constant"
_LIFTED = "_lifted_tensor"

TagFunction = Callable[[fx.Node], str | None]


def is_lifted(node: fx.Node) -> bool:
    """Whether the exporter lifted the constant of a placeholder out of the code."""
    return _LIFTED in node.name


class KeepExternalConstants(Pass):
    """Tag the constants of the model that go to a data file, so that nothing folds them."""

    contract = Contract()

    def __init__(self, gen_tag_fn: TagFunction | None = None) -> None:
        self.gen_tag_fn = gen_tag_fn

    def run(self, program: ExportedProgram) -> bool:
        names = constant_tensors(program)
        nodes = [node for node in placeholders(program.graph) if node.name in names]
        return any([_tag(node, self.gen_tag_fn) for node in nodes if not is_lifted(node)])


class TagExternalConstants(Pass):
    """Tag the constants that passes made after KeepExternalConstants."""

    contract = Contract(requires=facts(Fact.SPECS))

    def __init__(self, gen_tag_fn: TagFunction | None = None) -> None:
        self.gen_tag_fn = gen_tag_fn

    def run(self, program: ExportedProgram) -> bool:
        return bool(external_constants_pass(program.graph_module, self.gen_tag_fn).modified)


class TagMutableWeights(Pass):
    """Tag weights that a training program updates."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        return bool(external_mutable_weights_pass(program.graph_module, program).modified)


def external_constants_pass(
    gm: fx.GraphModule, gen_tag_fn: TagFunction | None = None
) -> PassResult:
    """Tag constants; without `gen_tag_fn` all of them go to one default file."""
    return PassResult(gm, any([_tag(node, gen_tag_fn) for node in _shipped_constants(gm)]))


def _shipped_constants(gm: fx.GraphModule) -> list[fx.Node]:
    """Placeholders of stored constants, except those that the exporter lifted."""
    specs = [(node, node.meta.get("spec")) for node in placeholders(gm.graph)]
    constants = [node for node, spec in specs if isinstance(spec, TensorSpec) and spec.const]
    return [node for node in constants if not is_lifted(node)]


def _tag(node: fx.Node, choose: TagFunction | None) -> bool:
    """Name the file of a constant; True if it had another one."""
    tag = DEFAULT_EXTERNAL_FILE if choose is None else choose(node)
    if tag is None or node.meta.get("constant_tag") == tag:
        return False
    node.meta["constant_tag"] = tag
    return True


def external_mutable_weights_pass(gm: fx.GraphModule, ep: ExportedProgram) -> PassResult:
    """Tag weights that a training program updates (those with a gradient)."""
    parameters = ep.graph_signature.inputs_to_parameters
    gradients = ep.graph_signature.backward_signature
    trained = (
        {parameters[n] for n in parameters}
        if gradients is None
        else set(gradients.gradients_to_parameters.values())
    )
    changed = False
    for node in placeholders(gm.graph):
        fqn = parameters.get(node.name)
        value = ep.state_dict.get(fqn) if fqn in trained else None
        if isinstance(value, torch.nn.Parameter) and value.requires_grad:
            changed |= _tag(node, None)
    return PassResult(gm, changed)


def delegate_external_constants_pass_unlifted(
    module: torch.nn.Module, gen_tag_fn: TagFunction | None = None
) -> PassResult:
    """Tag each weight of an exported, unlifted module with the data file of its delegate.

    `meta["custom"]` survives exporting the module again; backends that keep weights outside the
    program read `delegate_constant_tag` there.
    """
    graphs = [m.graph for m in module.modules() if isinstance(m, fx.GraphModule)]
    weights = [node for graph in graphs for node in graph.nodes if node.op == "get_attr"]
    if gen_tag_fn is None:
        return PassResult(module, False)
    for node in weights:
        node.meta.setdefault("custom", {})["delegate_constant_tag"] = gen_tag_fn(node)
    return PassResult(module, bool(weights))
