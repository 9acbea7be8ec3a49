"""The values of one method: literals, lists, and one tensor per TensorSpec.

Equal literals share one value, so a value that an instruction writes (a loop counter, the result of
size arithmetic, a program input) must be a fresh one. Knows neither graphs nor constants.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import torch

from executorch_py.exir import schema
from executorch_py.exir.error import NotSupportedError
from executorch_py.exir.ir.scalar_type import scalar_type_number
from executorch_py.exir.ir.tensor_spec import TensorSpec

_INT_RANGE = range(-(2**63), 2**63)
_LAYOUTS = {torch.strided: 0, torch.sparse_coo: 1}
_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1}


@dataclass(frozen=True)
class Ref:
    """The index of an emitted value, as a type of its own beside literal integers."""

    id: int


def scalar_value(value: Any) -> schema.KernelTypes:
    """A Python scalar in the file format; NotSupportedError for one that the format cannot hold."""
    if value is None:
        return schema.Null()
    if isinstance(value, bool):
        return schema.Bool(value)
    if isinstance(value, int):
        # Ranges search item by item for values that are not exactly an int, such as enums.
        if int(value) not in _INT_RANGE:
            raise NotSupportedError(f"integer {value}: the program format holds 64-bit integers")
        return schema.Int(int(value))
    if isinstance(value, float):
        return schema.Double(float(value))
    if isinstance(value, str):
        return schema.String(value)
    if isinstance(value, torch.dtype):
        return schema.Int(scalar_type_number(value))
    if isinstance(value, torch.layout) and value in _LAYOUTS:
        return schema.Int(_LAYOUTS[value])
    if isinstance(value, torch.memory_format) and value in _MEMORY_FORMATS:
        return schema.Int(_MEMORY_FORMATS[value])
    raise NotSupportedError(
        f"{type(value).__name__} {value!r}: the program format has no such value"
    )


def _literal_key(value: schema.KernelTypes) -> tuple[Any, ...]:
    """A key that is equal for equal values: doubles by bits, lists and tensors by their items."""
    if isinstance(value, schema.Double):
        return (schema.Double, struct.pack("<d", value.double_val))
    if isinstance(value, schema.DoubleList):
        return (schema.DoubleList, struct.pack(f"<{len(value.items)}d", *value.items))
    items = getattr(value, "items", None)
    content = items if items is not None else vars(value).values()
    return (type(value), *(tuple(item) if isinstance(item, list) else item for item in content))


@dataclass
class ValueTable:
    """The list of values; it grows by appending, and an index never changes its meaning."""

    values: list[schema.EValue] = field(default_factory=list)
    _literals: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _of_spec: dict[int, tuple[TensorSpec, int]] = field(default_factory=dict)

    def fresh(self, value: schema.KernelTypes) -> Ref:
        """A value of its own, which instructions may write."""
        self.values.append(schema.EValue(value))
        return Ref(len(self.values) - 1)

    def shared(self, value: schema.KernelTypes) -> Ref:
        """A value that no instruction writes, shared with all equal ones."""
        key = _literal_key(value)
        index = self._literals.get(key)
        if index is None:
            index = self._literals[key] = self.fresh(value).id
        return Ref(index)

    def literal(self, value: Any) -> Ref:
        """A Python scalar that no instruction writes."""
        return self.shared(scalar_value(value))

    def of_spec(self, spec: TensorSpec) -> Ref | None:
        """The value of a spec, if it has one."""
        found = self._of_spec.get(id(spec))
        return None if found is None else Ref(found[1])

    def bind_spec(self, spec: TensorSpec, ref: Ref) -> None:
        """Let `ref` be the value of the spec."""
        self._of_spec[id(spec)] = (spec, ref.id)

    def tensor(self, ref: Ref) -> schema.Tensor | None:
        """The tensor behind a value, or None if it is something else."""
        value = self.values[ref.id].val
        return value if isinstance(value, schema.Tensor) else None
