"""Memory banks of a target: sizes of its memories, and a planner that fills the first one first.

A bank is one planned memory of the file, named by its memory id. Tensors go by decreasing size into
the first bank of the list that has room, and spill to the next. A tensor whose `mem_id` a pass has
set before stays in that memory. Memories that the map does not list are planned for such tensors
only, without a limit: memory that a device reads, say. Plans of one bank are those of `greedy`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch import fx
from torch.export.graph_signature import ExportGraphSignature

from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.memory.greedy import SharedStorage, by_decreasing_size, find_room
from executorch_py.exir.memory.planning import MemoryAlgoResult, SpecAllocResult
from executorch_py.exir.memory.request import Request
from executorch_py.exir.memory.spec_queries import get_node_tensor_specs
from executorch_py.exir.schema import DeviceType

__all__ = [
    "Bank",
    "BankPlacementError",
    "BankedGreedy",
    "TargetMemoryMap",
    "format_placement_report",
    "planned_mem_ids",
]


class BankPlacementError(Exception):
    """A plan that the banks cannot hold."""


@dataclass(frozen=True)
class Bank:
    """One memory: its bytes for this model, its memory id, and an alignment of its own, if any."""

    name: str
    size: int
    mem_id: int
    alignment: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("size", self.size), ("mem_id", self.mem_id)):
            if value < 1:
                raise ValueError(f"bank {self.name}: {what}: expected 1 or more, got {value}")
        if self.alignment is not None and self.alignment < 1:
            raise ValueError(
                f"bank {self.name}: alignment: expected 1 or more, got {self.alignment}"
            )


class TargetMemoryMap:
    """The banks that the planner fills, the preferred one first."""

    def __init__(self, banks: Sequence[Bank]) -> None:
        self.banks = list(banks)
        if not self.banks:
            raise ValueError("banks: expected one bank or more, got none")
        for what, values in (
            ("name", [bank.name for bank in self.banks]),
            ("mem_id", [bank.mem_id for bank in self.banks]),
        ):
            repeated = [value for value, count in Counter(values).items() if count > 1]
            if repeated:
                raise ValueError(f"banks: expected a {what} for each, got {repeated} twice")
        self._by_id = {bank.mem_id: bank for bank in self.banks}

    def mem_ids(self) -> list[int]:
        """Memory ids in order of preference."""
        return [bank.mem_id for bank in self.banks]

    def manages(self, mem_id: int) -> bool:
        """Whether a memory is one of the banks."""
        return mem_id in self._by_id

    def bank(self, mem_id: int) -> Bank:
        """The bank of a memory id."""
        if mem_id not in self._by_id:
            raise ValueError(f"mem_id: expected one of {self.mem_ids()}, got {mem_id}")
        return self._by_id[mem_id]

    def mem_id(self, name: str) -> int:
        """The memory id of a name."""
        for bank in self.banks:
            if bank.name == name:
                return bank.mem_id
        names = [bank.name for bank in self.banks]
        raise ValueError(f"bank: expected one of {names}, got {name!r}")

    def describe(self) -> str:
        """The banks on one line, for messages."""
        return ", ".join(f"{b.name} (mem_id {b.mem_id}, {b.size} bytes)" for b in self.banks)


@dataclass
class _Memory:
    """State of one memory while it is filled; `limit` is None outside the map."""

    alignment: int
    limit: int | None
    padding: int
    start: int  # the first offset behind what is reserved
    used: int
    objects: list[SharedStorage] = field(default_factory=list)

    def take(self, spec: TensorSpec, overlapping: bool) -> tuple[int, int] | None:
        """Object and offset of a tensor, or None if the memory has no room for it."""
        first, last = spec.lifetime
        request = Request(spec.realign(self.alignment), first or 0, last or 0)
        place = find_room(self.objects, request, overlapping)
        if place is None:
            need = request.size + (0 if self.objects else self.padding)
            if self.limit is not None and self.used + need > self.limit:
                return None
            self.used += need
            self.objects.append(SharedStorage(request.size))
            place = len(self.objects) - 1, 0
        self.objects[place[0]].occupants.append((place[1], request))
        return place

    def free(self) -> int:
        return 0 if self.limit is None else max(self.limit - self.used, 0)


class BankedGreedy:
    """A planning algorithm over banks: decreasing size, the first bank with room.

    Tensors with a `mem_id` are placed before the others, which may share memory with them.
    """

    def __init__(self, target: TargetMemoryMap, allow_overlapping_allocations: bool = True) -> None:
        self.target = target
        self.allow_overlapping_allocations = allow_overlapping_allocations
        self.__name__ = "banked_greedy"

    def __call__(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: fx.GraphModule,
        graph_signature: ExportGraphSignature | None = None,
        extra_padding: int = 0,
    ) -> MemoryAlgoResult:
        """Place the specs; BankPlacementError if a bank is too small."""
        members = list(specs)
        self._check(alignment, members)
        reserved = list(getattr(graph_module, "input_mem_buffer_sizes", None) or [])
        owners = [spec for spec in members if spec.storage_base is None]
        pinned = {spec.mem_id for spec in owners if spec.mem_id is not None}
        memories = {
            mem_id: self._memory(mem_id, alignment, extra_padding, reserved)
            for mem_id in [*self.target.mem_ids(), *pinned]
        }
        placed: dict[TensorSpec, tuple[int, int, int]] = {}
        for spec in _in_order([s for s in owners if s.mem_id is not None]):
            placed[spec] = self._place_pinned(spec, memories)
        for spec in _in_order([s for s in owners if s.mem_id is None]):
            placed[spec] = self._place_free(spec, memories)
        return _result(members, placed, memories, reserved, extra_padding)

    def _check(self, alignment: int, specs: Sequence[TensorSpec]) -> None:
        for bank in self.target.banks:
            if bank.alignment is not None and bank.alignment % alignment != 0:
                raise BankPlacementError(
                    f"bank {bank.name}: alignment: expected a multiple of the plan's {alignment}, "
                    f"got {bank.alignment}"
                )
        others = sorted({spec.device.name for spec in specs if spec.device != DeviceType.CPU})
        if others:
            raise BankPlacementError(
                "banks are memory of the CPU: expected tensors on CPU only, got some on "
                f"{', '.join(others)}"
            )

    def _memory(
        self, mem_id: int, alignment: int, padding: int, reserved: Sequence[int]
    ) -> _Memory:
        taken = reserved[mem_id] if mem_id < len(reserved) else 0
        bank = self.target.bank(mem_id) if self.target.manages(mem_id) else None
        if bank is not None and bank.alignment is not None:
            alignment = bank.alignment
        start = -(-taken // alignment) * alignment
        limit = None if bank is None else bank.size
        return _Memory(alignment, limit, padding, start=start, used=start)

    def _place_pinned(self, spec: TensorSpec, memories: dict[int, _Memory]) -> tuple[int, int, int]:
        mem_id = spec.mem_id or 0
        memory = memories[mem_id]
        place = memory.take(spec, self.allow_overlapping_allocations)
        if place is None:
            bank = self.target.bank(mem_id)
            raise BankPlacementError(
                f"{spec!r} is pinned to bank {bank.name} by its mem_id {mem_id}: expected "
                f"{spec.allocated_memory} bytes free, got {memory.free()} of {bank.size}, "
                "and no fallback bank for it; enlarge the bank, or leave the tensor to the planner"
            )
        return mem_id, *place

    def _place_free(self, spec: TensorSpec, memories: dict[int, _Memory]) -> tuple[int, int, int]:
        for mem_id in self.target.mem_ids():
            place = memories[mem_id].take(spec, self.allow_overlapping_allocations)
            if place is not None:
                return mem_id, *place
        free = ", ".join(
            f"{bank.name} {memories[bank.mem_id].free()} of {bank.size}"
            for bank in self.target.banks
        )
        raise BankPlacementError(
            f"banks: expected room for {spec!r}, which needs {spec.allocated_memory} bytes, got "
            f"free bytes {free}; enlarge a bank, or add one. The map: {self.target.describe()}"
        )


def _in_order(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    return [specs[i] for i in by_decreasing_size([spec.allocated_memory for spec in specs])]


def _result(
    specs: Sequence[TensorSpec],
    placed: dict[TensorSpec, tuple[int, int, int]],
    memories: dict[int, _Memory],
    reserved: Sequence[int],
    padding: int,
) -> MemoryAlgoResult:
    """Offsets of all tensors, views among them, and the sizes of the memories."""
    sizes = list(reserved) + [0] * (max(memories) + 1 - len(reserved))
    starts: dict[int, list[int]] = {}
    for mem_id, memory in memories.items():
        starts[mem_id] = []
        if memory.objects:
            sizes[mem_id] = memory.start
        for item in memory.objects:
            starts[mem_id].append(sizes[mem_id])
            sizes[mem_id] += item.size
        sizes[mem_id] += padding if memory.objects else 0
    result = MemoryAlgoResult(bufsizes=sizes)
    for spec in specs:
        root = spec.storage_root()
        if root not in placed:
            continue
        mem_id, number, offset = placed[root]
        at = starts[mem_id][number] + offset + spec.storage_offset()
        result.spec_dict[spec] = SpecAllocResult(mem_id, number, at)
    return result


def planned_mem_ids(graph_module: fx.GraphModule) -> list[int]:
    """The memory id of each planned tensor of a graph."""
    specs = {
        id(spec): spec for node in graph_module.graph.nodes for spec in get_node_tensor_specs(node)
    }
    return [s.mem_id for s in specs.values() if s.mem_id is not None and not s.const]


def format_placement_report(
    target: TargetMemoryMap, bufsizes: Sequence[int], mem_ids: Iterable[int] = ()
) -> str:
    """A table of the banks: bytes used of their size, and tensors if their memory ids are given."""
    tensors = Counter(mem_ids)
    rows = [("bank", "mem_id", "used", "size", "share", "tensors")]
    total = 0
    for bank in target.banks:
        used = bufsizes[bank.mem_id] if bank.mem_id < len(bufsizes) else 0
        total += used
        share = f"{100 * used / bank.size:.1f}%"
        row = (str(bank.mem_id), str(used), str(bank.size), share, str(tensors[bank.mem_id]))
        rows.append((bank.name, *row))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([*lines, f"planned: {total} bytes in {len(target.banks)} banks"])
