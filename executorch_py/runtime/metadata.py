"""Metadata of a method that need not be loaded: upstream's MethodMeta and TensorInfo.

Metadata is built from the extension's dicts. Queries that upstream has are methods, as in upstream;
the additional ones (names, planned bytes, operators, delegates) are properties.
"""

from __future__ import annotations

from typing import Any

from executorch_py.terminal_text import quoted

# Upstream's names of the element types, by ScalarType number.
SCALAR_TYPE_NAMES = (
    "Byte",
    "Char",
    "Short",
    "Int",
    "Long",
    "Half",
    "Float",
    "Double",
    "ComplexHalf",
    "ComplexFloat",
    "ComplexDouble",
    "Bool",
    "QInt8",
    "QUInt8",
    "QInt32",
    "BFloat16",
    "QUInt4x2",
    "QUInt2x4",
    "Bits1x8",
    "Bits2x4",
    "Bits4x2",
    "Bits8",
    "Bits16",
    "Float8_e5m2",
    "Float8_e4m3fn",
    "Float8_e5m2fnuz",
    "Float8_e4m3fnuz",
    "UInt16",
    "UInt32",
    "UInt64",
)


class TensorInfo:
    """Metadata of one input, output or attribute tensor. Dynamic sizes are upper bounds."""

    __slots__ = ("_info",)

    def __init__(self, info: dict[str, Any]) -> None:
        self._info = info

    def sizes(self) -> tuple[int, ...]:
        """The size of every dimension, the upper bound if it is dynamic."""
        return tuple(self._info["sizes"])

    def dtype(self) -> int:
        """The ScalarType number."""
        return int(self._info["dtype"])

    def is_memory_planned(self) -> bool:
        """Whether the memory plan has memory for it; else the caller provides the memory."""
        return bool(self._info["planned"])

    def nbytes(self) -> int:
        """Bytes of its elements at the sizes of sizes()."""
        return int(self._info["nbytes"])

    @property
    def dtype_name(self) -> str:
        """The dtype's name in NumPy and torch: `float32`."""
        return str(self._info["dtype_name"])

    @property
    def dim_order(self) -> tuple[int, ...]:
        """Dimensions from outermost to innermost in memory."""
        return tuple(self._info["dim_order"])

    @property
    def is_dynamic(self) -> bool:
        """Whether runs may have smaller sizes."""
        return bool(self._info["dynamic"])

    @property
    def name(self) -> str | None:
        """The fully qualified name of a named buffer."""
        name = self._info["name"]
        return None if name is None else str(name)

    def __repr__(self) -> str:
        return (
            f"TensorInfo(sizes=[{', '.join(map(str, self.sizes()))}], "
            f"dtype={SCALAR_TYPE_NAMES[self.dtype()]}, "
            f"is_memory_planned={self.is_memory_planned()}, nbytes={self.nbytes()})"
        )


class MethodMeta:
    """Metadata of one method: its inputs, outputs, attributes, memory and operators."""

    __slots__ = ("_info",)

    def __init__(self, info: dict[str, Any]) -> None:
        self._info = info

    def name(self) -> str:
        """The method's name."""
        return str(self._info["name"])

    def num_inputs(self) -> int:
        """The number of flat inputs."""
        return len(self._info["inputs"])

    def num_outputs(self) -> int:
        """The number of flat outputs."""
        return len(self._info["outputs"])

    def num_attributes(self) -> int:
        """The number of named buffers."""
        return len(self._info["attributes"])

    def input_tensor_meta(self, index: int) -> TensorInfo:
        """Metadata of an input; IndexError if it does not exist or is no tensor."""
        return self._tensor("inputs", "input", index)

    def output_tensor_meta(self, index: int) -> TensorInfo:
        """Metadata of an output; IndexError if it does not exist or is no tensor."""
        return self._tensor("outputs", "output", index)

    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """Metadata of a named buffer; IndexError if it does not exist."""
        return self._tensor("attributes", "attribute", index)

    def _tensor(self, key: str, word: str, index: int) -> TensorInfo:
        values = self._info[key]
        if not 0 <= index < len(values):
            raise IndexError(
                f"method {quoted(self.name())}: expected an {word} index below {len(values)}, "
                f"got {index}"
            )
        if values[index]["tag"] != "Tensor":
            raise IndexError(
                f"{word} {index} of method {quoted(self.name())}: expected a tensor, got a value "
                f"of kind {values[index]['tag']}"
            )
        return TensorInfo(values[index])

    @property
    def input_kinds(self) -> tuple[str, ...]:
        """Kind of each input: `Tensor`, `Int`, `Double`, `Bool`, `String` or `None`."""
        return tuple(value["tag"] for value in self._info["inputs"])

    @property
    def output_kinds(self) -> tuple[str, ...]:
        return tuple(value["tag"] for value in self._info["outputs"])

    @property
    def planned_bytes(self) -> tuple[int, ...]:
        """Sizes of the planned memory buffers."""
        return tuple(self._info["planned"])

    @property
    def operators(self) -> dict[str, int]:
        """Names of operators, each with the number of instructions that call it."""
        return {op["name"]: op["calls"] for op in self._info["operators"]}

    @property
    def delegates(self) -> tuple[dict[str, Any], ...]:
        """Delegates: backend `id`, number of `calls`, and `nbytes` of the payload."""
        return tuple(dict(delegate) for delegate in self._info["delegates"])

    @property
    def num_instructions(self) -> int:
        return int(self._info["n_instructions"])

    def _texts(self, key: str) -> list[str]:
        return [
            repr(TensorInfo(value)) if value["tag"] == "Tensor" else value["tag"]
            for value in self._info[key]
        ]

    def __repr__(self) -> str:
        return (
            f"MethodMeta(name={quoted(self.name())}, num_inputs={self.num_inputs()}, "
            f"input_tensor_meta={self._texts('inputs')}, num_outputs={self.num_outputs()}, "
            f"output_tensor_meta={self._texts('outputs')})"
        )
