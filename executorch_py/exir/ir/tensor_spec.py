"""TensorSpec: dtype, shape, layout and planned memory of one tensor value.

The spec is in `node.meta["spec"]` from spec propagation to emission; the memory planner fills the
`mem_*` fields. Identity matters: one spec object is one storage and one value of the emitted
program, so specs compare and hash by identity. Knows nothing of graphs, passes or the byte format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from executorch_py.exir.error import internal_assert
from executorch_py.exir.ir.scalar_type import element_bytes
from executorch_py.exir.schema import DeviceType, ExtraTensorInfo, TensorShapeDynamism

ALIGNMENT = 16
"""Default alignment in bytes of everything that memory planning places."""


def num_bytes_from_shape_and_dtype(shape: Iterable[int], dtype: torch.dtype) -> int:
    """Bytes of a dense tensor."""
    return math.prod(shape) * element_bytes(dtype)


def align_up(value: int, alignment: int) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


def contiguous_stride_from_shape(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Strides of a row-major tensor."""
    return tuple(stride_from_dim_order(shape, range(len(shape))))


def stride_from_dim_order(sizes: Sequence[Any], dim_order: Iterable[int]) -> list[Any]:
    """Strides of a dense tensor stored outermost to innermost in `dim_order`.

    A size of 0 counts as 1.
    """
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in reversed(list(dim_order)):
        strides[dim] = step
        size = sizes[dim]
        step = step * (1 if isinstance(size, int) and size == 0 else size)
    return strides


def dim_order_from_stride(
    stride: Sequence[Any], shape: Sequence[Any] | None = None
) -> tuple[int, ...]:
    """Dimensions from outermost to innermost, by a stable sort of strides, largest first.

    Strides of dimensions of size one may sort into an odd order. A row-major tensor is then
    recorded as row-major, unless the order found is channels-last. Symbolic strides are compared by
    their hints, which decided the layout when the model was traced; strides that depend on data
    must have one order whatever the data are, else torch's error says so. A stride of 0 (of an
    expanded tensor) has no place in an order: with a shape, the tensor counts as the row-major
    copy that a method gets of it; without one it is an error.
    """
    zeros = [dim for dim, step in enumerate(stride) if isinstance(step, int) and step == 0]
    if zeros and shape is None:
        raise RuntimeError(
            f"strides {tuple(stride)}: expected none of 0, got one in dimension {zeros[0]}, as of "
            "an expanded tensor; give the strides of a copy, clone(memory_format="
            "torch.contiguous_format)"
        )
    if zeros:
        return tuple(range(len(stride)))
    order = _order_by_hints(stride, _GUESSES[0])
    rank = len(order)
    channels_last = rank > 2 and order == (0, *range(2, rank), 1)
    if shape is not None and not channels_last and _is_row_major(stride, shape):
        return tuple(range(rank))
    guesses = _GUESSES if shape is None else _GUESSES[:-1]  # sizes of tensors are rarely 2
    if any(_order_by_hints(stride, guess) != order for guess in guesses):
        _compare_by_torch([stride[dim] for dim in order])
    return order


def _order_by_hints(stride: Sequence[Any], guess: Callable[[int], int]) -> tuple[int, ...]:
    """The order of strides, largest first, with `guess` of a number for each unbacked symbol."""
    symbols = sorted({s for step in stride for s in _unbacked(step)}, key=str)
    values = {symbol: guess(i) for i, symbol in enumerate(symbols)}
    keys = [_hint(step, values) for step in stride]
    return tuple(sorted(range(len(keys)), key=lambda dim: -keys[dim]))


def _unbacked(value: Any) -> set[Any]:
    """The symbols of a size that tracing knew no value of."""
    if isinstance(value, int) or value.node.has_hint():
        return set()
    symbols: set[Any] = value.node.expr.free_symbols
    return symbols


def _compare_by_torch(descending: list[Any]) -> None:
    """Let torch compare strides that are not in this order for all data; it raises its error."""
    for larger, smaller in pairwise(descending):
        bool(larger >= smaller)


def _is_row_major(stride: Sequence[Any], shape: Sequence[Any]) -> bool:
    sizes, step = [_hint(s) for s in shape], 1
    for dim in reversed(range(len(sizes))):
        if sizes[dim] != 1 and _hint(stride[dim]) != step:
            return False
        step *= max(sizes[dim], 1)
    return True


def _hint(value: Any, values: Mapping[Any, int] | None = None) -> int:
    """The traced value of a size; an unbacked symbol counts as its number in `values`, else as a
    large prime, so that it never ties with 1.
    """
    if isinstance(value, int):
        return value
    node = value.node
    if node.has_hint():
        return int(node.hint)
    expr = node.expr
    values = values or {}
    return int(expr.xreplace({s: values.get(s, _UNBACKED_GUESS) for s in expr.free_symbols}))


_UNBACKED_GUESS = 8209
# Numbers for the unbacked symbols of strides, by position: equal, ascending and descending, small.
_GUESSES: tuple[Callable[[int], int], ...] = (
    lambda _: _UNBACKED_GUESS,
    lambda i: _UNBACKED_GUESS + 1 + i,
    lambda i: _UNBACKED_GUESS - 1 - i,
    lambda i: 2 + i,
)


class TensorSpec:
    """Type, layout and placement of one tensor value. Field names are upstream's."""

    def __init__(
        self,
        dtype: torch.dtype,
        shape: Sequence[Any],
        layout: torch.layout = torch.strided,
        is_sparse: bool = False,
        const: bool = False,
        requires_grad: bool = False,
        extra_tensor_info: ExtraTensorInfo | None = None,
    ) -> None:
        self.scalar_type = dtype
        self.const = const
        self.alignment = ALIGNMENT
        self.storage: torch.UntypedStorage | None = None
        self.shape: list[Any] = list(shape)
        self.dim_order: tuple[int, ...] = tuple(range(len(self.shape)))
        self.stride: tuple[Any, ...] = contiguous_stride_from_shape(self.shape)
        self.requires_grad = requires_grad
        self.layout = layout
        self.is_sparse = is_sparse
        self.extra_tensor_info = extra_tensor_info
        self.device = DeviceType.CPU
        self.device_index = 0
        self.shape_dynamism = (
            TensorShapeDynamism.STATIC
            if all(isinstance(size, int) for size in self.shape)
            else TensorShapeDynamism.DYNAMIC_BOUND
        )
        self.init_mem_planning_fields()

    def init_mem_planning_fields(self) -> None:
        """Forget where the tensor was placed."""
        self.lifetime: list[int | None] = [None, None]
        self.mem_id: int | None = None
        self.mem_obj_id: int | None = None
        self.mem_offset: int | None = None
        self.storage_base: TensorSpec | None = None
        self.storage_base_offset = 0

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, const: bool = False) -> TensorSpec:
        """The spec of a real or fake tensor. Constants keep a reference to their storage."""
        spec = cls(
            tensor.dtype,
            tensor.shape,
            layout=tensor.layout,
            is_sparse=tensor.is_sparse,
            const=const,
            requires_grad=tensor.requires_grad,
        )
        if tensor.layout is torch.strided:
            spec.set_dim_order(dim_order_from_stride(tensor.stride(), tensor.shape))
        if const:
            spec.storage = tensor.untyped_storage()
        return spec

    def set_dim_order(self, dim_order: Sequence[int]) -> None:
        """Choose the memory layout; strides follow."""
        self.dim_order = tuple(dim_order)
        self.stride = tuple(stride_from_dim_order(self.shape, self.dim_order))

    def set_upper_bound_shape(self, shape: Sequence[int]) -> None:
        """Replace symbolic sizes by their upper bounds; the dynamism stays."""
        self.shape = list(shape)
        self.stride = tuple(stride_from_dim_order(self.shape, self.dim_order))

    @property
    def dtype(self) -> torch.dtype:
        return self.scalar_type

    @property
    def allocated_memory(self) -> int:
        """Bytes that planning reserves: the size rounded up to the alignment."""
        return align_up(self.nbytes(), self.alignment)

    def nbytes(self) -> int:
        """Bytes of the tensor at its recorded shape."""
        return num_bytes_from_shape_and_dtype(self.shape, self.scalar_type)

    def realign(self, new_alignment: int) -> int:
        """Set the alignment and return the bytes planning will reserve."""
        self.alignment = new_alignment
        return self.allocated_memory

    @property
    def is_static_shape_tensor(self) -> bool:
        return self.shape_dynamism == TensorShapeDynamism.STATIC

    @property
    def is_upper_bound_tensor(self) -> bool:
        return self.shape_dynamism == TensorShapeDynamism.DYNAMIC_BOUND

    @property
    def is_dynamic_unbound_tensor(self) -> bool:
        return self.shape_dynamism == TensorShapeDynamism.DYNAMIC_UNBOUND

    @property
    def is_dynamic_shape_tensor(self) -> bool:
        return self.shape_dynamism != TensorShapeDynamism.STATIC

    @property
    def inplace_base(self) -> TensorSpec | None:
        """The spec whose memory this one uses from its start, if any."""
        self._check_start("read")
        return self.storage_base

    @inplace_base.setter
    def inplace_base(self, base: TensorSpec | None) -> None:
        self._check_start("set")
        self.storage_base = base

    def _check_start(self, use: str) -> None:
        internal_assert(
            self.storage_base_offset == 0,
            f"inplace_base: expected storage_base_offset 0 to {use} it, got "
            f"{self.storage_base_offset}: use storage_base",
        )

    def storage_root(self) -> TensorSpec:
        """The spec that owns the memory: itself unless it is a view."""
        root = self
        while root.storage_base is not None:
            root = root.storage_base
        return root

    def storage_offset(self) -> int:
        """Offset of a view in bytes from the start of the spec that owns the memory."""
        offset, spec = 0, self
        while spec.storage_base is not None:
            offset += spec.storage_base_offset
            spec = spec.storage_base
        return offset

    def debug(self) -> str:
        """All fields on one line, for messages."""
        fields = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if k != "storage")
        return f"TensorSpec(id={id(self)}, {fields})"

    def __repr__(self) -> str:
        return f"TensorSpec({self.scalar_type}, {self.shape}, const={self.const})"


def make_view_spec(base: TensorSpec, shape: Sequence[Any], byte_offset: int = 0) -> TensorSpec:
    """A row-major spec over the memory of `base`, starting `byte_offset` bytes into it."""
    view = TensorSpec(base.scalar_type, shape, layout=base.layout)
    view.storage_base = base
    view.storage_base_offset = byte_offset
    view.lifetime = base.lifetime
    view.shape_dynamism = base.shape_dynamism
    return view
