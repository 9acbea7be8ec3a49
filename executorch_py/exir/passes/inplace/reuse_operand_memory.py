"""ReuseOperandMemory: an element-wise result reuses the memory of an operand that it reads last.

The result and the operand become one storage, so that they are not both alive at once and the
kernel writes to memory that it has just read. Only for operators whose kernels may overwrite their
operands, and only if fragmentation makes the plan at most a hundredth larger. Runs last before
memory is planned; places nothing itself.
"""

from __future__ import annotations

from torch import fx

from executorch_py.exir import memory
from executorch_py.exir.ir.aliasing import specs_of
from executorch_py.exir.ir.graph import flat_outputs, placeholders
from executorch_py.exir.ir.inplace_rules import may_overwrite
from executorch_py.exir.ir.op_traits import is_out_variant, op_key
from executorch_py.exir.ir.tensor_spec import ALIGNMENT, TensorSpec, align_up
from executorch_py.exir.memory.lifetime import Lifetimes, compute_lifetimes
from executorch_py.exir.memory.plan import least_bytes
from executorch_py.exir.memory.request import Request
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class ReuseOperandMemory(GraphPass):
    """Let results of the method's own graph share storage with operands that die there.

    `outputs_planned` is True if outputs are sure to have planned memory.
    """

    contract = Contract(requires=facts(Fact.UPPER_BOUNDS))

    def __init__(self, outputs_planned: bool = True) -> None:
        super().__init__()
        self.outputs_planned = outputs_planned

    def apply(self, gm: fx.GraphModule) -> bool:
        before = compute_lifetimes(gm, None)
        needed = _bytes_needed(before)
        reused = _Reuse(gm, before, self.outputs_planned).run()
        allowed = needed + needed // 100
        if reused and _bytes_needed(compute_lifetimes(gm, None)) > allowed:
            for spec in reused:
                spec.storage_base = None
                spec.lifetime = [None, None]
            reused = []
        return bool(reused)


def _bytes_needed(lifetimes: Lifetimes) -> int:
    requests = [
        Request(align_up(spec.nbytes(), ALIGNMENT), *span)
        for spec, span in lifetimes.spans.items()
        if not spec.const
    ]
    return least_bytes(requests)[1].total


class _Reuse:
    def __init__(self, gm: fx.GraphModule, lifetimes: Lifetimes, outputs_planned: bool) -> None:
        self.graph = gm.graph
        self.lifetimes = lifetimes
        self.kept = {s.storage_root() for n in placeholders(gm.graph) for s in specs_of(n)}
        if not outputs_planned:
            leaves = [leaf for leaf in flat_outputs(gm.graph) if isinstance(leaf, fx.Node)]
            self.kept |= {s.storage_root() for leaf in leaves for s in specs_of(leaf)}
        self.reserved = {s for n in gm.graph.nodes if n.target is memory.alloc for s in specs_of(n)}

    def run(self) -> list[TensorSpec]:
        """The results that now share the memory of an operand."""
        reused = []
        for node in self.graph.nodes:
            result = node.meta.get("spec")
            if node.op != "call_function" or not is_out_variant(node.target):
                continue
            if not isinstance(result, TensorSpec) or not self._is_free(result):
                continue
            operand = self._dying_operand(node, result)
            if operand is not None:
                self._reuse(result, operand)
                reused.append(result)
        return reused

    def _is_free(self, spec: TensorSpec) -> bool:
        """Whether a spec owns memory that is reserved for it and used inside the graph only."""
        return (
            spec.storage_base is None
            and spec in self.reserved
            and spec not in self.kept
            and not spec.const
            and spec.nbytes() > 0
        )

    def _dying_operand(self, node: fx.Node, result: TensorSpec) -> TensorSpec | None:
        """The storage of an operand whose last reader is `node`."""
        now = self.lifetimes.time_of[node]
        arguments = [a if isinstance(a, fx.Node) else None for a in node.args]
        for argument in arguments:
            own = argument.meta.get("spec") if argument is not None else None
            if not isinstance(own, TensorSpec):
                continue
            root = own.storage_root()
            dies = root is not result and self.lifetimes.spans[root][1] == now
            if (
                dies
                and self._is_free(root)
                and self._may_overwrite_all(node, arguments, root, result)
            ):
                return root
        return None

    def _may_overwrite_all(
        self, node: fx.Node, arguments: list[fx.Node | None], root: TensorSpec, result: TensorSpec
    ) -> bool:
        """Whether every argument in the storage is all of it, and may be overwritten."""
        readers = [
            n
            for n in node.all_input_nodes
            if n.target is not memory.alloc and any(s.storage_root() is root for s in specs_of(n))
        ]
        if not all(reader in arguments for reader in readers):
            return False  # inside a list
        return all(
            argument.meta["spec"].nbytes() == root.nbytes()
            and _same_sizes(argument, node)
            and may_overwrite(op_key(node.target), position, argument.meta["spec"], result)
            for position, argument in enumerate(arguments)
            if argument in readers and argument is not None
        )

    def _reuse(self, result: TensorSpec, operand: TensorSpec) -> None:
        spans = self.lifetimes.spans
        spans[operand][1] = max(spans[operand][1], spans.pop(result)[1])
        result.storage_base, result.storage_base_offset = operand, 0
        result.lifetime = operand.lifetime


def _same_sizes(a: fx.Node, b: fx.Node) -> bool:
    """Whether two results have the same sizes in every run."""
    x, y = a.meta.get("val"), b.meta.get("val")
    if x is None or y is None or x.dim() != y.dim():
        return False
    return all(
        m == n if isinstance(m, int) and isinstance(n, int) else _expression(m) == _expression(n)
        for m, n in zip(x.shape, y.shape, strict=True)
    )


def _expression(size: object) -> object:
    return getattr(getattr(size, "node", None), "expr", size)
