"""MemoryPlanningPass: an offset in memory for every tensor of a method, checked by a verifier.

The last pass of a method: nothing may change the graph after it. Mutable buffers that methods share
are placed once for all methods. The verifier is independent of the planner and runs every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch.export.graph_signature import ExportGraphSignature
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir import memory
from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.graph import all_graph_modules, placeholders
from executorch_py.exir.ir.op_traits import op_overload, out_arguments
from executorch_py.exir.ir.tensor_spec import ALIGNMENT, TensorSpec, align_up
from executorch_py.exir.memory.banks import BankedGreedy, TargetMemoryMap
from executorch_py.exir.memory.lifetime import node_specs
from executorch_py.exir.memory.planning import (
    MemoryPlanningAlgorithmSuite,
    Verifier,
    apply_algo,
)
from executorch_py.exir.settings_check import expect_bool, expect_power_of_two

SHARED_MUTABLE_MEMORY = 2


@dataclass
class _SharedBuffers:
    """Mutable buffers of all methods, by fully qualified name."""

    methods: list[tuple[fx.GraphModule, ExportGraphSignature]] = field(default_factory=list)

    def written(self) -> set[str]:
        return {fqn for _, sig in self.methods for fqn in sig.buffers_to_mutate.values()}


class MemoryPlanningPass(PassBase):
    """Plan the memory of methods; the arguments are upstream's.

    `modified` is always True, as upstream's is: every plan is written anew.
    """

    def __init__(
        self,
        memory_planning_algo: Callable[..., list[int]] | None = None,
        allow_lifetime_and_storage_overlap: bool = False,
        alloc_graph_input: bool = True,
        alloc_graph_output: bool = True,
        alloc_mutable_buffers: bool = True,
        share_mutable_buffers: bool = False,
        alignment: int = ALIGNMENT,
    ) -> None:
        super().__init__()
        for name, flag in (
            ("allow_lifetime_and_storage_overlap", allow_lifetime_and_storage_overlap),
            ("alloc_graph_input", alloc_graph_input),
            ("alloc_graph_output", alloc_graph_output),
            ("alloc_mutable_buffers", alloc_mutable_buffers),
            ("share_mutable_buffers", share_mutable_buffers),
        ):
            expect_bool(name, flag)
        expect_power_of_two("alignment", alignment)
        if share_mutable_buffers and not alloc_mutable_buffers:
            raise ValueError(
                "share_mutable_buffers=True: expected alloc_mutable_buffers=True, got False"
            )
        if not (memory_planning_algo is None or callable(memory_planning_algo)):
            raise TypeError(
                "memory_planning_algo: expected a function such as "
                f"executorch_py.exir.memory.planning.greedy, got {memory_planning_algo!r}"
            )
        self.memory_planning_algo = (
            MemoryPlanningAlgorithmSuite() if memory_planning_algo is None else memory_planning_algo
        )
        self.allow_lifetime_and_storage_overlap = allow_lifetime_and_storage_overlap
        self.alloc_graph_input = alloc_graph_input
        self.alloc_graph_output = alloc_graph_output
        self.alloc_mutable_buffers = alloc_mutable_buffers
        self.share_mutable_buffers = share_mutable_buffers
        self.alignment = alignment
        self._shared = _SharedBuffers()

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        return self.run(graph_module)

    def run(
        self,
        graph_module: fx.GraphModule,
        graph_signature: ExportGraphSignature | None = None,
    ) -> PassResult:
        """Plan one method in place."""
        self._set_alloc_node_spec(graph_module)
        suite = self.memory_planning_algo
        algo = _as_suite(suite)
        apply_algo(
            algo,
            graph_module,
            self.alignment,
            graph_signature,
            self.alloc_graph_input,
            self.alloc_graph_output,
            self.alloc_mutable_buffers and not self.share_mutable_buffers,
        )
        if self.share_mutable_buffers and graph_signature is not None:
            self._shared.methods.append((graph_module, graph_signature))
        else:
            self._verify(graph_module, graph_signature)
        return PassResult(graph_module, True)

    def run_multimethod(self) -> None:
        """Place shared mutable buffers of all methods planned so far; called once after them."""
        if not self.share_mutable_buffers:
            return
        methods, written = self._shared.methods, self._shared.written()
        self._shared = _SharedBuffers()
        offsets: dict[str, int] = {}
        end = 0
        placed: list[fx.GraphModule] = []
        for gm, signature in methods:
            for spec, fqn in _buffers(gm, signature, written):
                if fqn not in offsets:
                    offsets[fqn] = end
                    end += align_up(spec.nbytes(), self.alignment)
                spec.const = False
                spec.realign(self.alignment)
                spec.mem_id, spec.mem_offset = SHARED_MUTABLE_MEMORY, offsets[fqn]
            placed.append(gm)
        for gm, signature in methods:
            sizes = gm.meta["non_const_buffer_sizes"]
            if len(sizes) > SHARED_MUTABLE_MEMORY:
                raise InternalError(
                    "share_mutable_buffers places shared state in memory 2: expected a plan with "
                    f"memory 1 only, got {len(sizes) - 1} memories"
                )
            gm.meta["non_const_buffer_sizes"] = [*sizes, end]
            _place_views_of_shared(gm)
            self._verify(gm, signature)

    def _set_alloc_node_spec(self, graph_module: fx.GraphModule) -> None:
        """Give each alloc node the spec of the result it holds."""
        for module in all_graph_modules(graph_module):
            for node in module.graph.nodes:
                op = op_overload(node.target) if node.op == "call_function" else None
                names = out_arguments(op) if op is not None else ()
                if not names or "spec" not in node.meta:
                    continue
                specs = node.meta["spec"]
                results = [specs] if len(names) == 1 else list(specs)
                for name, spec in zip(names, results, strict=True):
                    _assign(node.kwargs.get(name), spec)

    def _verify(
        self, graph_module: fx.GraphModule, graph_signature: ExportGraphSignature | None
    ) -> None:
        verifier = Verifier(
            graph_module,
            self.alloc_graph_input,
            self.alloc_graph_output,
            self.alloc_mutable_buffers,
            graph_signature,
        )
        verifier.verify_storage_reuse(self.allow_lifetime_and_storage_overlap)
        verifier.verify_graph_input_output()


def banked_memory_planning_pass(
    target: TargetMemoryMap,
    alignment: int = ALIGNMENT,
    allow_overlapping_allocations: bool = True,
    **kwargs: Any,
) -> MemoryPlanningPass:
    """A planning pass that fills the banks of a target; `kwargs` are MemoryPlanningPass's."""
    if kwargs.get("share_mutable_buffers"):
        raise ValueError(
            "share_mutable_buffers: expected False with banks, got True: it takes memory 2 for "
            "itself and expects all other tensors in memory 1"
        )
    planner = BankedGreedy(target, allow_overlapping_allocations)
    suite = MemoryPlanningAlgorithmSuite([planner])
    return MemoryPlanningPass(suite, alignment=alignment, **kwargs)


def _as_suite(algo: Callable[..., object]) -> Callable[..., list[int]]:
    """A suite of one algorithm, where upstream's scripts pass the algorithm itself."""
    if isinstance(algo, MemoryPlanningAlgorithmSuite):
        return algo
    from executorch_py.exir.memory.planning import MemoryAlgoResult

    def run(*args: object) -> list[int]:
        result = algo(*args)
        if not isinstance(result, MemoryAlgoResult):
            return result  # type: ignore[return-value]
        return MemoryPlanningAlgorithmSuite([lambda *_: result])(*args)  # type: ignore[arg-type]

    return run


def _assign(alloc: object, spec: object) -> None:
    if isinstance(alloc, fx.Node) and alloc.target is memory.alloc:
        alloc.meta["spec"] = spec
    elif isinstance(alloc, (list, tuple)) and isinstance(spec, (list, tuple)):
        for item, item_spec in zip(alloc, spec, strict=True):
            _assign(item, item_spec)


def _buffers(
    gm: fx.GraphModule, signature: ExportGraphSignature, written: set[str]
) -> list[tuple[TensorSpec, str]]:
    """Specs of the buffers that any method writes, as they occur in this one."""
    fqns = signature.inputs_to_buffers
    return [
        (spec, fqns[node.name])
        for node in placeholders(gm.graph)
        if fqns.get(node.name) in written
        for spec in node_specs(node)
    ]


def _place_views_of_shared(gm: fx.GraphModule) -> None:
    for module in all_graph_modules(gm):
        for node in module.graph.nodes:
            for spec in node_specs(node):
                root = spec.storage_root()
                if root is not spec and root.mem_id == SHARED_MUTABLE_MEMORY:
                    spec.mem_id = root.mem_id
                    spec.mem_offset = (root.mem_offset or 0) + spec.storage_offset()
