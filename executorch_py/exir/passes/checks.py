"""Checks of a pipeline: after every pass, the truth of `modified`, the facts that should hold and
the rules of the dialect.

A snapshot of the program is one line of text for each node, constant and entry of the signature.
`run` must return True exactly if these lines changed. Facts are tests of every node. A dialect's
verifier runs as long as the facts of the dialect hold. Checks may take as long as the passes;
runner.py runs them if they are enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram
from torch.fx import GraphModule

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import EdgeOpOverload
from executorch_py.exir.dialects.sym_ops import KEPT_AS_TORCH_OPS
from executorch_py.exir.dialects.verifier import accepting_torch
from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.graph import flat_outputs, lookup_tensor, placeholders
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.op_traits import (
    ASSERTIONS,
    higher_order_name,
    is_inplace,
    is_scalar_op,
    mutated_positions,
    op_key,
    op_overload,
    out_arguments,
)
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Dialect, Fact, Facts, IfChanged, Pass, facts
from executorch_py.exir.passes.inplace.restore_mutations import WRAPPERS
from executorch_py.exir.passes.lower.replace_edge_with_backend import is_python_arithmetic
from executorch_py.exir.passes.to_edge.replace_views import is_view

# Meta that affects the file, beside values and specs.
_META = ("constant_tag", "et_init_buffer", "debug_handle", "delegation_tag")


def run_checked(
    passes: Sequence[Pass],
    program: ExportedProgram,
    given: Facts,
    dialects: Sequence[Dialect] | None = None,
) -> None:
    """Run the passes on a program of which the facts `given` hold, checking each."""
    if dialects is None:
        dialects, layouts = _own_dialects(program)
        given |= layouts
    run = _CheckedRun(program, given, dialects)
    for one in passes:
        run.step(one)


class _CheckedRun:
    """A program on its way through a pipeline, the facts that hold of it, and its last snapshot."""

    def __init__(self, program: ExportedProgram, given: Facts, dialects: Sequence[Dialect]) -> None:
        self.program, self.holds, self.dialects = program, given, dialects
        self._check("the program given to the pipeline")
        self.before = snapshot(program)

    def step(self, one: Pass) -> bool:
        """Run and check one pass; passes within it are checked one by one."""
        if isinstance(one, IfChanged):
            return self._step_if_changed(one)
        name = f"pass {type(one).__name__}"
        missing = one.contract.requires - self.holds
        if missing:
            listed = ", ".join(sorted(fact.name for fact in missing))
            raise InternalError(f"{name} requires {listed}: no pass before it ensures that")
        modified = one.run(self.program)
        self.holds = one.contract.after(self.holds)
        self._check(name)
        after = snapshot(self.program)
        check_truth(name, modified, self.before, after)
        self.before = after
        return modified

    def _step_if_changed(self, both: IfChanged) -> bool:
        """Run the passes inside; beyond them only those facts hold that hold either way."""
        held = self.holds
        changed = any([self.step(one) for one in both.first])
        if changed:
            for one in both.then:
                self.step(one)
        self.holds = both.contract.after(held)
        return changed

    def _check(self, after: str) -> None:
        check_program(self.program, self.holds, after)
        for dialect in self.dialects:
            if dialect.facts <= self.holds:
                check_dialect(self.program, dialect, after)
                return


def check_dialect(program: ExportedProgram, dialect: Dialect, after: str) -> None:
    """Refuse a program that breaks a rule of the dialect that it is in."""
    try:
        dialect.verifier(program.graph_module)
    except SpecViolationError as error:
        name = dialect.verifier.dialect
        raise InternalError(
            f"after {after} a rule of the dialect {name} is broken: {error}"
        ) from error


def _own_dialects(program: ExportedProgram) -> tuple[list[Dialect], Facts]:
    """The edge dialect with the program's own settings, if the program is in it, and its layouts.

    Backends leave operators of their own around delegates, and passes of the user may leave any.
    Passes of to_executorch insert torch operators; all other rules hold of these, too. They end
    with FUNCTIONAL: operators that write to their operands are outside the core set. The rule of
    layouts ends with DIM_ORDER, before the others.
    """
    verifier = accepting_torch(program.verifier)
    if verifier is None or not verifier.is_valid(program.graph_module):
        return [], facts()
    layouts = facts(Fact.DIM_ORDER) if verifier.use_dim_order else facts()
    rest = accepting_torch(program.verifier, any_layout=True)
    functional = facts(Fact.FUNCTIONAL)
    return [Dialect(verifier, functional | layouts), Dialect(rest, functional)], layouts


def check_truth(name: str, modified: bool, before: list[str], after: list[str]) -> None:
    """Refuse a value of `modified` that the snapshots contradict."""
    if modified and before == after:
        raise InternalError(f"{name} returned True, but left the program as it was")
    if not modified and before != after:
        lost, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
        shown = [f"- {line}" for line in lost[:3]] + [f"+ {line}" for line in new[:3]]
        listed = "\n".join(shown or ["the order of nodes"])
        raise InternalError(f"{name} returned False, but changed the program:\n{listed}")


# ---- snapshots


def snapshot(program: ExportedProgram) -> list[str]:
    """Lines that are equal exactly if the programs are."""
    lines = [str(spec) for spec in program.graph_signature.input_specs]
    lines += [str(spec) for spec in program.graph_signature.output_specs]
    for fqn, value in [*program.state_dict.items(), *program.constants.items()]:
        lines.append(f"constant {fqn} = {_constant(value)}")
    texts = _Texts()
    for i, gm in enumerate(graph_modules(program.graph_module)):
        lines += [f"{i}: {line}" for line in _lines_of(gm, texts)]
    return lines


def _lines_of(gm: GraphModule, texts: _Texts) -> Iterator[str]:
    for name, value in gm.named_buffers(recurse=False):
        yield f"attribute {name} = {_constant(value)}"
    for node in gm.graph.nodes:
        call = f"{node.name} = {node.op} {texts.target(node.target)}"
        args = f"{texts.of(node.args)} {texts.of(node.kwargs)}"
        known = {key: node.meta[key] for key in _META if key in node.meta}
        value, spec = texts.of(node.meta.get("val")), texts.of(node.meta.get("spec"))
        yield f"{call} {args} val {value} spec {spec} {known or ''}"


def _constant(value: Any) -> str:
    """A constant by its memory: passes replace tensors, and write to none."""
    if not isinstance(value, torch.Tensor):
        return repr(type(value))
    version = 0 if value.is_inference() else value._version
    layout = f"{value.dtype} {tuple(value.shape)}"
    return f"{layout} object {id(value)} version {version}"


class _Texts:
    """Values of nodes as text; specs are numbered in order, so that shared specs are visible."""

    def __init__(self) -> None:
        self._specs: dict[TensorSpec, int] = {}
        self._targets: dict[Any, str] = {}

    def target(self, target: Any) -> str:
        if target not in self._targets:
            kind = "edge " if isinstance(target, EdgeOpOverload) else ""
            self._targets[target] = kind + (op_key(target) or _name_of(target))
        return self._targets[target]

    def of(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return f"%{value.name}"
        if isinstance(value, TensorSpec):
            return self._spec(value)
        if isinstance(value, torch.Tensor):
            strides = _sizes(value.stride()) if value.layout is torch.strided else value.layout
            return f"{value.dtype}{_sizes(value.shape)}{strides}"
        if isinstance(value, (list, tuple, torch.Size)):
            return f"[{', '.join(map(self.of, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k}: {self.of(v)}' for k, v in value.items())}}}"
        return repr(value)

    def _spec(self, spec: TensorSpec) -> str:
        if spec in self._specs:
            return f"spec {self._specs[spec]}"
        number = self._specs[spec] = len(self._specs)
        base = "" if spec.storage_base is None else self._spec(spec.storage_base)
        return (
            f"spec {number} ({spec.dtype} {_sizes(spec.shape)} {_sizes(spec.stride)} "
            f"{spec.dim_order} const={spec.const} {spec.shape_dynamism} base {base} + "
            f"{spec.storage_base_offset} at {spec.mem_id}:{spec.mem_offset})"
        )


def _name_of(target: Any) -> str:
    module, name = getattr(target, "__module__", ""), getattr(target, "__qualname__", None)
    return f"{module}.{name}" if name else str(target)


def _sizes(sizes: Sequence[Any]) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"


# ---- facts


def check_program(program: ExportedProgram, holds: Facts, after: str) -> None:
    """Refuse a program that is not well-formed, or of which a fact should hold and does not."""
    try:
        for gm in graph_modules(program.graph_module):
            gm.graph.lint()
    except (RuntimeError, ValueError) as error:
        raise InternalError(f"after {after} the graph is not well-formed: {error}") from error
    problems = list(_signature_problems(program))
    for gm in graph_modules(program.graph_module):
        for fact in sorted(holds, key=lambda fact: fact.name):
            test = _TESTS[fact]
            problems += [
                f"{fact.name} ({fact.value}) does not hold of {node.format_node()}"
                for node in gm.graph.nodes
                if not test(node)
            ]
    if problems:
        raise InternalError(f"after {after}: " + "\n".join(problems[:5]))


def _signature_problems(program: ExportedProgram) -> Iterator[str]:
    """Disagreements between placeholders, signature and constants."""
    specs = program.graph_signature.input_specs
    nodes = placeholders(program.graph_module.graph)
    if len(specs) != len(nodes):
        yield f"the signature has {len(specs)} inputs, the graph {len(nodes)}"
        return
    for spec, node in zip(specs, nodes, strict=True):
        value = None if spec.target is None else lookup_tensor(program, spec.target)
        example = node.meta.get("val")
        if value is not None and isinstance(example, torch.Tensor):
            expected, got = (value.dtype, value.shape), (example.dtype, example.shape)
            if expected != got:
                yield f"constant {spec.target}: expected {expected} of {node.name}, got {got}"
    n_outputs = len(flat_outputs(program.graph_module.graph))
    if len(program.graph_signature.output_specs) != n_outputs:
        n_specs = len(program.graph_signature.output_specs)
        yield f"the signature has {n_specs} outputs, the graph {n_outputs}"


def _calls_operator(test: Callable[[fx.Node, Any], bool]) -> Callable[[fx.Node], bool]:
    """The test for calls of operators; other nodes pass."""

    def check(node: fx.Node) -> bool:
        op = op_overload(node.target) if node.op == "call_function" else None
        return op is None or test(node, op)

    return check


def _has_tensor_operands(node: fx.Node, op: Any) -> bool:
    given = dict(zip((arg.name for arg in op._schema.arguments), node.args, strict=False))
    given.update(node.kwargs)
    slots = [a.name for a in op._schema.arguments if isinstance(a.type, torch.TensorType)]
    values = [given[name] for name in slots if name in given]
    return all(
        isinstance(value, fx.Node) and isinstance(value.meta.get("val"), (torch.Tensor, type(None)))
        for value in values
    )


def _is_edge(node: fx.Node, op: Any) -> bool:
    return isinstance(node.target, EdgeOpOverload) or op in KEPT_AS_TORCH_OPS


def _specs_in(value: Any) -> list[TensorSpec]:
    if isinstance(value, TensorSpec):
        return [value]
    return (
        [s for item in value for s in _specs_in(item)] if isinstance(value, (list, tuple)) else []
    )


def _has_spec(node: fx.Node) -> bool:
    value, spec = node.meta.get("val"), node.meta.get("spec")
    if node.op in ("output", "get_attr") or not isinstance(value, torch.Tensor):
        return True
    return isinstance(spec, TensorSpec) and spec.dtype is value.dtype


def _has_numbers_for_sizes(node: fx.Node) -> bool:
    specs = _specs_in(node.meta.get("spec"))
    return all(isinstance(size, int) for spec in specs for size in spec.shape)


def _writes_to_given_memory(node: fx.Node, op: Any) -> bool:
    return bool(is_inplace(op) or is_scalar_op(op) or out_arguments(op))


_TESTS: dict[Fact, Callable[[fx.Node], bool]] = {
    Fact.ATEN: _calls_operator(lambda node, op: not isinstance(node.target, EdgeOpOverload)),
    Fact.NO_VIEWS: _calls_operator(lambda node, op: not is_view(op)),
    Fact.TENSOR_OPERANDS: _calls_operator(_has_tensor_operands),
    Fact.EDGE: _calls_operator(_is_edge),
    Fact.DIM_ORDER: _calls_operator(lambda node, op: node.target not in DimOrderOpsMap),
    Fact.FUNCTIONAL: _calls_operator(lambda node, op: not mutated_positions(op)),
    Fact.PLAIN_MUTATIONS: lambda node: higher_order_name(node.target) not in WRAPPERS,
    Fact.NO_METADATA_ASSERTIONS: _calls_operator(
        lambda node, op: op_key(op) != "aten::_assert_tensor_metadata"
    ),
    Fact.NO_ASSERTIONS: _calls_operator(lambda node, op: op_key(op) not in ASSERTIONS),
    Fact.SPECS: _has_spec,
    Fact.RUNTIME_ARITHMETIC: lambda node: (
        node.op != "call_function" or not is_python_arithmetic(node)
    ),
    Fact.UPPER_BOUNDS: _has_numbers_for_sizes,
    Fact.OUT_VARIANTS: _calls_operator(_writes_to_given_memory),
}
