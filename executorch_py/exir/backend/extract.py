"""Extraction of the nodes of one tag: they become a program of their own, and one delegate call
replaces them.

The new program owns the parameters, buffers and constants that carry the tag; everything else it
reads becomes an input. Nodes keep their order otherwise, so the result does not depend on
hashing.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

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
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from executorch_py.exir.backend.lowered_module import LoweredBackendModule
from executorch_py.exir.backend.partitioner import DelegationSpec
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import flat_outputs, output_node

# Meta keys that a delegate's result inherits from the node that computed it before.
_KEPT_META = ("val", "stack_trace", "nn_module_stack", "torch_fn", "from_node")
_DATA_ORDER = {InputKind.PARAMETER: 0, InputKind.BUFFER: 1, InputKind.CONSTANT_TENSOR: 2}


@dataclass
class Extracted:
    """A partition before its backend runs: `module` is in the graph already, without payload."""

    module: LoweredBackendModule
    spec: DelegationSpec


class Extraction:
    """Extracts the nodes with `tag` from `gm`, the program's graph or a control-flow body."""

    def __init__(self, gm: fx.GraphModule, ep: ExportedProgram, tag: str, spec: DelegationSpec):
        self._gm, self._ep, self._tag, self._spec = gm, ep, tag, spec
        self._is_body = gm is not ep.graph_module
        self._signature = {} if self._is_body else _input_specs(ep)
        self._inside = self._tagged_nodes()

    def run(self) -> Extracted | None:
        """Replace the nodes by a delegate call; None if no operator carries the tag."""
        if not any(node.op == "call_function" for node in self._inside):
            return None
        data = [n for n in self._inside if n.op == "placeholder"]
        data.sort(key=lambda n: _DATA_ORDER[self._signature[n.name].kind])
        inputs = self._outside_inputs()
        mutations, outputs = self._results()
        program = self._subprogram(data, inputs, mutations, outputs)
        module = LoweredBackendModule(
            program, self._spec.backend_id, b"", list(self._spec.compile_specs)
        )
        if mutations:
            self._drop_mutations(mutations)
        self._replace(module, inputs, outputs)
        self._forget(data)
        return Extracted(module, self._spec)

    # ---- nodes of the partition

    def _tagged_nodes(self) -> list[fx.Node]:
        inside = []
        for node in self._gm.graph.nodes:
            if node.meta.get("delegation_tag") != self._tag:
                continue
            if node.op == "output":
                raise RuntimeError(f"the output node: expected no tag, got '{self._tag}'")
            if node.op == "placeholder":
                self._check_placeholder(node)
            inside.append(node)
        members = set(inside)
        for node in inside:  # the parts of a tuple belong to the operator that makes it
            if isinstance(node.meta.get("val"), (list, tuple)):
                members.update(u for u in node.users if u.target is operator.getitem)
        for node in list(members):
            members.update(a for a in node.all_input_nodes if a.op == "get_attr")
        return [node for node in self._gm.graph.nodes if node in members]

    def _check_placeholder(self, node: fx.Node) -> None:
        spec = self._signature.get(node.name)
        if spec is None or spec.kind not in _DATA_ORDER:
            raise RuntimeError(
                f"tag '{self._tag}': expected a parameter, buffer or constant, got the placeholder "
                f"'{node.name}'; inputs must not be tagged"
            )
        for user in node.users:
            other = user.meta.get("delegation_tag")
            if other != self._tag and user.op != "output":
                raise RuntimeError(
                    f"constant data node ({node}) is tagged with ({self._tag}) but has user "
                    f"({user}) which has tag ({other})"
                )

    def _outside_inputs(self) -> list[fx.Node]:
        inside = set(self._inside)
        seen: dict[fx.Node, None] = {}
        for node in self._inside:
            for arg in node.all_input_nodes:
                if arg not in inside:
                    seen.setdefault(arg)
        return list(seen)

    def _results(self) -> tuple[list[tuple[fx.Node, str]], list[fx.Node]]:
        """(buffer writes that the delegate takes over, nodes whose values others need)."""
        inside, mutations = set(self._inside), []
        owned = {self._signature[n.name].target for n in self._inside if n.op == "placeholder"}
        returned = [] if self._is_body else flat_outputs(self._gm.graph)
        kept = set()
        specs = [] if self._is_body else self._ep.graph_signature.output_specs
        for node, spec in zip(returned, specs, strict=False):
            taken = spec.kind is OutputKind.BUFFER_MUTATION and spec.target in owned
            if taken and node in inside:
                mutations.append((node, str(spec.target)))
            elif isinstance(node, fx.Node):
                kept.add(node)
        out = output_node(self._gm.graph)
        outputs = [
            node
            for node in self._inside
            if node.op == "call_function"
            and not isinstance(node.meta.get("val"), (list, tuple))
            and any(
                user not in inside and (user is not out or self._is_body or node in kept)
                for user in node.users
            )
        ]
        return mutations, outputs

    # ---- the program of the partition

    def _subprogram(
        self,
        data: list[fx.Node],
        inputs: list[fx.Node],
        mutations: list[tuple[fx.Node, str]],
        outputs: list[fx.Node],
    ) -> ExportedProgram:
        root, graph = torch.nn.Module(), fx.Graph()
        made: dict[fx.Node, fx.Node] = {}
        for node in (*data, *inputs):
            made[node] = graph.placeholder(node.name)
            made[node].meta = dict(node.meta)
        for node in self._inside:
            if node.op == "get_attr":
                _copy_attribute(self._gm, root, str(node.target))
            if node.op != "placeholder":
                made[node] = graph.node_copy(node, lambda n: made[n])
        results = [node for node, _ in mutations] + outputs
        out = graph.output(tuple(made[node] for node in results))
        out.meta = {k: v for k, v in output_node(self._gm.graph).meta.items() if k != "val"}
        signature = ExportGraphSignature(
            [self._signature[n.name] for n in data]
            + [InputSpec(InputKind.USER_INPUT, _argument(made[n]), None) for n in inputs],
            [
                OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(made[n].name), target)
                for n, target in mutations
            ]
            + [OutputSpec(OutputKind.USER_OUTPUT, _argument(made[n]), None) for n in outputs],
        )
        targets = [str(self._signature[n.name].target) for n in data]
        call_signature = ModuleCallSignature(
            [],
            [],
            pytree.tree_structure((tuple(0 for _ in inputs), {})),
            pytree.tree_structure([0 for _ in outputs]),
        )
        return ExportedProgram(
            root=fx.GraphModule(root, graph),
            graph=graph,
            graph_signature=signature,
            state_dict={t: self._ep.state_dict[t] for t in targets if t in self._ep.state_dict},
            range_constraints=dict(self._ep.range_constraints),
            module_call_graph=[ModuleCallEntry("", call_signature)],
            constants={t: self._ep.constants[t] for t in targets if t in self._ep.constants},
            verifiers=[self._ep.verifier],
        )

    # ---- the call in the owner's graph

    def _replace(
        self, module: LoweredBackendModule, inputs: list[fx.Node], outputs: list[fx.Node]
    ) -> None:
        graph, inside = self._gm.graph, set(self._inside)
        last = self._inside[-1]
        self._move_users_behind(last, inside)
        with graph.inserting_after(last):
            lowered = graph.get_attr(get_lowered_module_name(self._gm, module))
        with graph.inserting_after(lowered):
            call = graph.call_function(executorch_call_delegate, (lowered, *inputs))
        handles = (n.meta.get("debug_handle") or 0 for n in graph.nodes)
        call.meta["debug_handle"] = max(handles, default=0) + 1
        call.meta["val"] = [node.meta["val"] for node in outputs]
        position = call
        for i, node in enumerate(outputs):
            with graph.inserting_after(position):
                position = graph.call_function(operator.getitem, (call, i))
            position.meta.update((k, node.meta[k]) for k in _KEPT_META if k in node.meta)
            node.replace_all_uses_with(position, delete_user_cb=lambda u: u not in inside)
        if not self._is_body:
            self._rename_outputs(outputs, call)

    def _move_users_behind(self, last: fx.Node, inside: set[fx.Node]) -> None:
        """Nodes between the partition's nodes that need its results go behind its last one."""
        graph, position = self._gm.graph, last
        behind: set[fx.Node] = set()
        for node in list(graph.nodes):
            if node in inside:
                if not behind.isdisjoint(node.all_input_nodes):
                    raise ExportError(
                        ExportErrorType.NOT_SUPPORTED,
                        f"partition '{self._tag}' of {self._spec.backend_id} needs its own result: "
                        f"'{node.name}' depends on nodes outside that depend on the partition",
                    )
            elif node.op == "output":
                break
            elif any(a in inside and a.op != "placeholder" for a in node.all_input_nodes) or (
                not behind.isdisjoint(node.all_input_nodes)
            ):
                behind.add(node)
        for node in list(graph.nodes):
            if node is last:
                break
            if node in behind:
                position.append(node)
                position = node

    def _rename_outputs(self, outputs: list[fx.Node], call: fx.Node) -> None:
        """The signature names output nodes; those that became parts of the call have new names."""
        results = {u.args[1]: u.name for u in call.users if u.target is operator.getitem}
        names = {node.name: results[i] for i, node in enumerate(outputs)}
        specs = self._ep.graph_signature.output_specs
        for i, spec in enumerate(specs):
            new = names.get(getattr(spec.arg, "name", None) or "")
            if new is not None:
                specs[i] = OutputSpec(spec.kind, type(spec.arg)(new), spec.target)

    def _drop_mutations(self, mutations: list[tuple[fx.Node, str]]) -> None:
        """The owner no longer writes buffers that the delegate owns."""
        written = {(id(node), target) for node, target in mutations}
        out, specs = output_node(self._gm.graph), self._ep.graph_signature.output_specs
        pairs = list(zip(flat_outputs(self._gm.graph), specs, strict=True))
        kept = [(n, s) for n, s in pairs if (id(n), s.target) not in written]
        out.args = (tuple(node for node, _ in kept),)
        specs[:] = [spec for _, spec in kept]

    def _forget(self, data: list[fx.Node]) -> None:
        """Erase the partition's nodes, and the data that the owner no longer has."""
        graph = self._gm.graph
        for node in reversed(self._inside):
            if node.op != "placeholder" and not node.users:
                graph.erase_node(node)
        for node in data:
            if not node.users:
                graph.erase_node(node)
                self._forget_data(node.name)
        graph.lint()

    def _forget_data(self, name: str) -> None:
        specs = self._ep.graph_signature.input_specs
        gone = self._signature[name]
        specs[:] = [spec for spec in specs if spec is not gone]
        if any(spec.target == gone.target for spec in specs):
            return
        self._ep._state_dict.pop(str(gone.target), None)
        self._ep._constants.pop(str(gone.target), None)


def _input_specs(ep: ExportedProgram) -> dict[str, InputSpec]:
    return {spec.arg.name: spec for spec in ep.graph_signature.input_specs}


def _argument(node: fx.Node) -> Any:
    if isinstance(node.meta.get("val"), (torch.SymInt, int)):
        return SymIntArgument(node.name)
    return TensorArgument(node.name)


def _copy_attribute(gm: fx.GraphModule, root: torch.nn.Module, target: str) -> None:
    value: Any = gm
    *path, name = target.split(".")
    for part in path:
        value = getattr(value, part)
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    setattr(root, name, getattr(value, name))


def number_in_graph_order(gm: fx.GraphModule, modules: Collection[LoweredBackendModule]) -> None:
    """Rename those delegates of a graph so that the one called first has the lowest number."""
    calls = [
        node
        for node in gm.graph.nodes
        if node.target is executorch_call_delegate
        and any(getattr(gm, node.args[0].target) is module for module in modules)
    ]
    attributes = [call.args[0] for call in calls]
    ordered = [getattr(gm, node.target) for node in attributes]
    for node in attributes:
        delattr(gm, node.target)
    for node, module, name in zip(
        attributes, ordered, sorted((node.target for node in attributes), key=_number), strict=True
    ):
        node.target = name
        setattr(gm, name, module)
    for nodes in (calls, attributes):
        names = sorted((node.name for node in nodes), key=_number)
        for i, node in enumerate(nodes):  # another node may still have the name
            node.name = f"_renamed_{i}"
        for node, name in zip(nodes, names, strict=True):
            node.name = name


def _number(name: str) -> int:
    """The number at the end of a name, -1 without one."""
    number = name.rpartition("_")[2]
    return int(number) if number.isdigit() else -1
