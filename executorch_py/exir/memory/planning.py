"""Memory planning under upstream's names: algorithms over specs, the suite that chooses one, the
Verifier.

An algorithm is `(alignment, specs, graph_module, graph_signature, extra_padding) ->
MemoryAlgoResult`. The placing itself is done by the pure strategies in `memory/`; here specs are
turned into requests, one group per memory id, and offsets back into specs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from torch import fx
from torch.export.graph_signature import ExportGraphSignature, InputKind

from executorch_py.exir.error import InternalError, internal_assert
from executorch_py.exir.ir.graph import all_graph_modules, placeholders
from executorch_py.exir.ir.op_traits import is_delegate_call
from executorch_py.exir.ir.tensor_spec import TensorSpec, align_up
from executorch_py.exir.memory.branch_outputs import place_branch_outputs_in_results
from executorch_py.exir.memory.greedy import by_decreasing_size, place_in_shared_objects
from executorch_py.exir.memory.lifetime import (
    compute_lifetimes,
    mutable_placeholders,
    node_specs,
)
from executorch_py.exir.memory.naive import place_sequentially
from executorch_py.exir.memory.plan import least_bytes
from executorch_py.exir.memory.request import Layout, Request
from executorch_py.exir.memory.spec_queries import (
    collect_specs_from_nodes,
    filter_nodes,
    get_graph_input_tensors,
    get_graph_output_tensors,
    get_node_tensor_specs,
    update_tensor_lifetime,
)
from executorch_py.exir.memory.verify import PlanVerifier
from executorch_py.exir.memory.verify_contents import ContentVerifier
from executorch_py.exir.schema import DeviceType

__all__ = [
    "MemoryAlgoResult",
    "MemoryPlanningAlgorithmSuite",
    "SpecAllocResult",
    "Verifier",
    "apply_algo",
    "best",
    "collect_specs_from_nodes",
    "filter_nodes",
    "get_graph_input_tensors",
    "get_graph_output_tensors",
    "get_node_tensor_specs",
    "greedy",
    "naive",
    "update_all_tensors_lifetime",
    "update_tensor_lifetime",
]


@dataclass
class SpecAllocResult:
    """Placement of one spec."""

    mem_id: int
    mem_obj_id: int
    mem_offset: int


@dataclass
class MemoryAlgoResult:
    """Placement of every spec, and the size of every memory (entry 0 is reserved)."""

    spec_dict: dict[TensorSpec, SpecAllocResult] = field(default_factory=dict)
    bufsizes: list[int] = field(default_factory=list)


Algorithm = Callable[
    [int, Iterable[TensorSpec], fx.GraphModule, ExportGraphSignature | None, int],
    MemoryAlgoResult,
]


def naive(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: fx.GraphModule,
    graph_signature: ExportGraphSignature | None,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    """Every spec gets memory of its own."""
    return _place(alignment, specs, extra_padding, lambda requests, _: place_sequentially(requests))


def greedy(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: fx.GraphModule,
    graph_signature: ExportGraphSignature | None,
    extra_padding: int = 0,
    *,
    allow_overlapping_allocations: bool = True,
) -> MemoryAlgoResult:
    """Upstream's default: decreasing size into shared objects.

    Sizes are compared as they are before this alignment.
    """
    members = list(specs)
    before = {spec: spec.allocated_memory for spec in members}

    def strategy(requests: Sequence[Request], owners: Sequence[TensorSpec]) -> Layout:
        order = by_decreasing_size([before[spec] for spec in owners])
        return place_in_shared_objects(requests, allow_overlapping_allocations, order)

    return _place(alignment, members, extra_padding, strategy)


def best(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: fx.GraphModule,
    graph_signature: ExportGraphSignature | None,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    """The default: the smallest plan of all strategies, `greedy` among them."""
    return _place(alignment, specs, extra_padding, lambda requests, _: least_bytes(requests)[1])


def _place(
    alignment: int,
    specs: Iterable[TensorSpec],
    extra_padding: int,
    strategy: Callable[[Sequence[Request], Sequence[TensorSpec]], Layout],
) -> MemoryAlgoResult:
    groups: dict[int, list[TensorSpec]] = {}
    views: list[TensorSpec] = []
    for spec in specs:
        if spec.storage_base is not None:
            views.append(spec)
        else:
            groups.setdefault(1 if spec.mem_id is None else spec.mem_id, []).append(spec)
    result = MemoryAlgoResult(bufsizes=[0] * (max(groups, default=1) + 1))
    for mem_id, members in groups.items():
        requests = []
        for spec in members:
            first, last = spec.lifetime
            internal_assert(first is not None and last is not None, f"no lifetime: {spec.debug()}")
            requests.append(Request(spec.realign(alignment), first or 0, last or 0))
        layout = strategy(requests, members)
        objects = layout.object_ids or range(len(members))
        for spec, offset, obj in zip(members, layout.offsets, objects, strict=True):
            result.spec_dict[spec] = SpecAllocResult(mem_id, obj, offset)
        result.bufsizes[mem_id] = align_up(layout.total, alignment) + extra_padding
    for view in views:
        if base := result.spec_dict.get(view.storage_root()):
            offset = base.mem_offset + view.storage_offset()
            result.spec_dict[view] = SpecAllocResult(base.mem_id, base.mem_obj_id, offset)
    return result


class MemoryPlanningAlgorithmSuite:
    """Runs several algorithms and keeps the plan with the fewest bytes in all."""

    def __init__(self, algo_list: list[Algorithm] | None = None) -> None:
        self.algo_list: list[Algorithm] = [best] if algo_list is None else algo_list
        self.chosen: str | None = None

    def __call__(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: fx.GraphModule,
        graph_signature: ExportGraphSignature | None,
        extra_padding: int = 0,
    ) -> list[int]:
        """Place the specs; returns the sizes of the memories."""
        members = list(specs)
        memory_ids = {spec: spec.mem_id for spec in members}
        winner: MemoryAlgoResult | None = None
        for algo in self.algo_list:
            result = algo(alignment, members, graph_module, graph_signature, extra_padding)
            for spec, mem_id in memory_ids.items():
                spec.mem_id = mem_id
            if winner is None or sum(result.bufsizes) < sum(winner.bufsizes):
                winner, self.chosen = result, getattr(algo, "__name__", "algorithm")
        assert winner is not None, "expected a suite of algorithms, got none"
        for spec in members:
            if spec.storage_base is not None and spec not in winner.spec_dict:
                continue
            if spec not in winner.spec_dict:
                raise InternalError(f"{self.chosen} did not place {spec.debug()}")
            placed = winner.spec_dict[spec]
            spec.mem_id = placed.mem_id
            spec.mem_offset = placed.mem_offset
            spec.mem_obj_id = placed.mem_obj_id
        return winner.bufsizes


def apply_algo(
    algo: Callable[..., list[int]],
    graph_module: fx.GraphModule,
    alignment: int,
    graph_signature: ExportGraphSignature | None = None,
    alloc_graph_input: bool = True,
    alloc_graph_output: bool = True,
    alloc_mutable_buffers: bool = True,
    enable_non_cpu_memory_planning: bool = False,
) -> list[int]:
    """Plan a method with a suite; return the sizes of its memories, stored in `gm.meta` as well.

    All memories are the CPU's. With `enable_non_cpu_memory_planning` a tensor of another device is
    an error; without it such a tensor is planned like any other.
    """
    place_branch_outputs_in_results(graph_module)
    compute_lifetimes(graph_module, graph_signature)
    specs = list(
        _specs_to_plan(
            graph_module,
            graph_signature,
            not alloc_graph_input,
            not alloc_graph_output,
            not alloc_mutable_buffers,
        )
    )
    if enable_non_cpu_memory_planning:
        _refuse_other_devices(specs)
    padding = _tail_padding(graph_module)
    sizes = list(algo(alignment, specs, graph_module, graph_signature, padding))
    sizes += [0] * (2 - len(sizes))
    _place_views(graph_module)
    graph_module.meta["non_const_buffer_sizes"] = sizes
    return sizes


def _specs_to_plan(
    gm: fx.GraphModule,
    signature: ExportGraphSignature | None,
    skip_inputs: bool,
    skip_outputs: bool,
    skip_mutable: bool,
) -> Iterable[TensorSpec]:
    skipped: set[TensorSpec] = set()
    if skip_inputs:
        skipped |= _roots(get_user_input_specs(gm, signature))
    if skip_outputs:
        skipped |= _roots(get_graph_output_tensors(gm.graph.nodes))
    skipped -= _roots(_state_specs(gm, signature))
    if skip_mutable:
        skipped |= _roots(get_mutable_buffer_specs(gm, signature))
    seen: set[TensorSpec] = set()
    for module in all_graph_modules(gm):
        for node in module.graph.nodes:
            for spec in node_specs(node) if node.op not in ("output", "get_attr") else ():
                root = spec.storage_root()
                if root in seen or root in skipped or root.const:
                    continue
                seen.add(root)
                if not root.is_dynamic_unbound_tensor:
                    yield root


def _refuse_other_devices(specs: Iterable[TensorSpec]) -> None:
    for spec in specs:
        if spec.device is not DeviceType.CPU:
            raise NotImplementedError(
                f"enable_non_cpu_memory_planning: {spec!r} is on {spec.device.name}, and plans "
                "have memories on CPU only; turn the option off to plan it there"
            )


def _roots(specs: Iterable[TensorSpec]) -> set[TensorSpec]:
    return {spec.storage_root() for spec in specs}


def _place_views(gm: fx.GraphModule) -> None:
    """Place views inside their bases; unplanned bases have unplanned views."""
    for module in all_graph_modules(gm):
        for node in module.graph.nodes:
            for spec in node_specs(node):
                root = spec.storage_root()
                if root is not spec and root.mem_offset is not None:
                    spec.mem_id = root.mem_id
                    spec.mem_obj_id = root.mem_obj_id
                    spec.mem_offset = root.mem_offset + spec.storage_offset()


def _tail_padding(gm: fx.GraphModule) -> int:
    """Bytes that some delegate of the program may read behind the end of a memory."""
    return max(
        (
            int(getattr(module, str(node.args[0].target)).tail_padding)
            for module in all_graph_modules(gm)
            for node in module.graph.nodes
            if node.op == "call_function" and is_delegate_call(node.target)
        ),
        default=0,
    )


def get_user_input_specs(
    gm: fx.GraphModule, signature: ExportGraphSignature | None = None
) -> set[TensorSpec]:
    """Specs of the user's inputs; without a signature, of all placeholders."""
    names = None
    if signature is not None:
        names = {s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT}
    return {
        spec
        for node in placeholders(gm.graph)
        if names is None or node.name in names
        for spec in node_specs(node)
    }


def get_mutable_buffer_specs(
    gm: fx.GraphModule, signature: ExportGraphSignature | None
) -> set[TensorSpec]:
    """Specs of the buffers that the method writes."""
    buffers = signature.inputs_to_buffers if signature is not None else {}
    names = mutable_placeholders(signature) & buffers.keys()
    return _specs_of_placeholders(gm, names)


def _state_specs(gm: fx.GraphModule, signature: ExportGraphSignature | None) -> set[TensorSpec]:
    """Specs of written buffers and of trained weights."""
    return _specs_of_placeholders(gm, mutable_placeholders(signature))


def _specs_of_placeholders(gm: fx.GraphModule, names: Collection[str]) -> set[TensorSpec]:
    return {
        spec for node in placeholders(gm.graph) if node.name in names for spec in node_specs(node)
    }


def _written_back(signature: ExportGraphSignature | None) -> dict[str, str]:
    """Placeholder of each mutated buffer → name of the output that it holds in the end."""
    if signature is None:
        return {}
    placeholder = {fqn: name for name, fqn in signature.inputs_to_buffers.items()}
    return {placeholder[fqn]: out for out, fqn in signature.buffers_to_mutate.items()}


def update_all_tensors_lifetime(
    graph_module: fx.GraphModule, graph_signature: ExportGraphSignature | None = None
) -> set[TensorSpec]:
    """Compute lifetimes; returns all specs that have one."""
    return set(compute_lifetimes(graph_module, graph_signature).spans)


class Verifier:
    """The plan check under upstream's names: storage reuse, and whether inputs and outputs were
    planned.
    """

    def __init__(
        self,
        graph_module: fx.GraphModule,
        alloc_graph_input: bool,
        alloc_graph_output: bool,
        alloc_mutable_buffers: bool,
        graph_signature: ExportGraphSignature | None = None,
    ) -> None:
        self.graph_module = graph_module
        self.alloc_graph_input = alloc_graph_input
        self.alloc_graph_output = alloc_graph_output
        self.alloc_mutable_buffers = alloc_mutable_buffers
        self.graph_signature = graph_signature

    @classmethod
    def mem_obj_id_match(
        cls, lhs_spec: TensorSpec, rhs_spec: TensorSpec, accept_both_none: bool = True
    ) -> bool:
        """Whether two tensors belong to the same shared object of the same memory."""
        if lhs_spec.mem_id != rhs_spec.mem_id or lhs_spec.mem_obj_id != rhs_spec.mem_obj_id:
            return False
        return lhs_spec.mem_obj_id is not None or accept_both_none

    @classmethod
    def has_overlap(cls, lhs_ivl: Sequence[int], rhs_ivl: Sequence[int]) -> bool:
        """Whether two intervals, both ends included, have a point in common."""
        first, last = max(lhs_ivl[0], rhs_ivl[0]), min(lhs_ivl[1], rhs_ivl[1])
        return lhs_ivl[0] <= lhs_ivl[1] and rhs_ivl[0] <= rhs_ivl[1] and first <= last

    @classmethod
    def lifetime_overlap(cls, lhs_spec: TensorSpec, rhs_spec: TensorSpec) -> bool:
        """Whether two tensors are alive at one instruction."""
        spans: list[list[int]] = []
        for spec in (lhs_spec, rhs_spec):
            span = [time for time in spec.lifetime if time is not None]
            internal_assert(len(span) == 2, f"no lifetime: {spec.debug()}")
            spans.append(span)
        return cls.has_overlap(*spans)

    @classmethod
    def storage_overlap(cls, lhs_spec: TensorSpec, rhs_spec: TensorSpec) -> bool:
        """Whether the bytes reserved for two tensors have any in common."""
        if lhs_spec.mem_id != rhs_spec.mem_id:
            return False
        ranges: list[list[int]] = []
        for spec in (lhs_spec, rhs_spec):
            start = spec.mem_offset
            if start is None:
                raise InternalError(f"not planned: {spec.debug()}")
            ranges.append([start, start + spec.allocated_memory - 1])
        return cls.has_overlap(*ranges)

    def verify_storage_reuse(self, allow_lifetime_and_storage_overlap: bool = False) -> int:
        """Prove that no tensors alive together overlap; returns how many pairs share memory.

        Places are compared with the sizes of the memories where the graph has been given them.
        """
        mutable = mutable_placeholders(self.graph_signature)
        sizes = self.graph_module.meta.get("non_const_buffer_sizes")
        verifier = PlanVerifier(self.graph_module, sizes, mutable)
        if not allow_lifetime_and_storage_overlap:
            verifier.check()
            ContentVerifier(self.graph_module, _written_back(self.graph_signature)).check()
        return verifier.pairs_sharing_memory()

    def verify_graph_input_output(self) -> None:
        """Check that inputs and outputs are planned exactly if enabled; constants and shared ones
        are exempt.
        """
        inputs = get_user_input_specs(self.graph_module, self.graph_signature)
        outputs = get_graph_output_tensors(self.graph_module.graph.nodes)
        mutable = _roots(_state_specs(self.graph_module, self.graph_signature))
        shared = _roots(inputs) & _roots(outputs)
        for group, wanted, name in (
            (inputs, self.alloc_graph_input, "input"),
            (outputs, self.alloc_graph_output, "output"),
        ):
            for spec in group:
                root = spec.storage_root()
                if spec.const or root in mutable or root in shared or root.const:
                    continue
                if (spec.mem_id is not None) != wanted:
                    raise InternalError(
                        f"graph {name} {spec!r} is {'not ' if wanted else ''}planned, although "
                        f"alloc_graph_{name}={wanted}"
                    )
