"""Operators of the library `quantized_decomposed` that torch does not define: out variants, so that
programs can call the kernels, and operators on packed weights.

    register_quantized_ops()
    torch.ops.quantized_decomposed.embedding_4bit(weight, scales, zeros, -8, 7, indices)

Torch's own quantization code brings quantize, dequantize and choose_qparams; sums, products with
8-bit weights and look-ups in tables of 8, 4 and 2 bits are defined here, in eager torch. Operators
that another package registered before are left alone: the schemas are equal. csrc/kernels/op has
the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch.library import Library, register_fake

NAMESPACE = "quantized_decomposed"
_CODES = "int quant_min, int quant_max, ScalarType dtype"
_TABLE = (
    "Tensor weight, Tensor weight_scales, Tensor? weight_zero_points, int weight_quant_min, "
    "int weight_quant_max, Tensor indices"
)
_MATRIX = "Tensor input, Tensor weight, Tensor weight_scales, Tensor? weight_zero_points"


def _affine(tensor: str) -> str:
    numbers = (
        ("float", "scale"),
        ("int", "zero_point"),
        ("int", "quant_min"),
        ("int", "quant_max"),
    )
    return ", ".join(f"{kind} {tensor}_{name}" for kind, name in numbers)


_SUM = f"Tensor a, {_affine('a')}, Tensor b, {_affine('b')}, {_affine('out')}"
# Functional overload and out overload, with the arguments that they share, in torch's library.
_OUT_OF_TORCH = (
    ("quantize_per_tensor", "out", f"Tensor input, float scale, int zero_point, {_CODES}"),
    (
        "quantize_per_tensor.tensor",
        "Tensor_out",
        f"Tensor input, Tensor scale, Tensor zero_point, {_CODES}",
    ),
    (
        "quantize_per_channel",
        "out",
        f"Tensor input, Tensor scales, Tensor zero_points, int axis, {_CODES}",
    ),
    (
        "quantize_per_token",
        "out",
        f"Tensor input, Tensor scales, Tensor zero_points, {_CODES}",
    ),
    (
        "dequantize_per_tensor",
        "out",
        f"Tensor input, float scale, int zero_point, {_CODES}, *, ScalarType? out_dtype=None",
    ),
    (
        "dequantize_per_tensor.tensor",
        "Tensor_out",
        f"Tensor input, Tensor scale, Tensor zero_point, {_CODES}, *, ScalarType? out_dtype=None",
    ),
    (
        "dequantize_per_channel",
        "out",
        f"Tensor input, Tensor scales, Tensor? zero_points, int axis, {_CODES}, *, "
        "ScalarType? out_dtype=None",
    ),
    (
        "dequantize_per_token",
        "out",
        f"Tensor input, Tensor scales, Tensor zero_points, {_CODES}, ScalarType output_dtype",
    ),
    (
        "choose_qparams.tensor",
        "Tensor_out",
        "Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype",
    ),
    ("choose_qparams_per_token_asymmetric", "out", "Tensor input, ScalarType dtype"),
)


# ---- operators that torch does not define


def _add(
    a: torch.Tensor,
    a_scale: float,
    a_zero_point: int,
    a_quant_min: int,
    a_quant_max: int,
    b: torch.Tensor,
    b_scale: float,
    b_zero_point: int,
    b_quant_min: int,
    b_quant_max: int,
    out_scale: float,
    out_zero_point: int,
    out_quant_min: int,
    out_quant_max: int,
) -> torch.Tensor:
    library = torch.ops.quantized_decomposed
    of_a = (a_scale, a_zero_point, a_quant_min, a_quant_max, a.dtype)
    of_b = (b_scale, b_zero_point, b_quant_min, b_quant_max, b.dtype)
    of_out = (out_scale, out_zero_point, out_quant_min, out_quant_max, a.dtype)
    wide = library.dequantize_per_tensor(a, *of_a) + library.dequantize_per_tensor(b, *of_b)
    result: torch.Tensor = library.quantize_per_tensor(wide, *of_out)
    return result


def _widened(
    weight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """(weight - zeros) * scales, with one of each for a row or for equal groups of a row."""
    groups = 1 if scales.dim() == 1 else scales.size(1)
    torch._check(
        scales.dim() in (1, 2)
        and scales.size(0) == weight.size(0)
        and groups > 0
        and weight.size(1) % groups == 0,
        lambda: (
            "weight_scales: expected one scale for each row, or for each of equal groups of a "
            f"row, of weight {tuple(weight.shape)}, got {tuple(scales.shape)}"
        ),
    )
    torch._check(
        zeros is None or zeros.shape == scales.shape,
        lambda: "weight_zero_points: expected the shape of weight_scales",
    )
    numbers = weight.to(dtype).unflatten(1, (groups, -1))
    if zeros is not None:
        numbers = numbers - zeros.to(dtype).reshape(-1, groups, 1)
    return (numbers * scales.to(dtype).reshape(-1, groups, 1)).flatten(1)


def _wide_type(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _mixed_mm(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_scales: torch.Tensor,
    weight_zero_points: torch.Tensor | None,
) -> torch.Tensor:
    wide = _wide_type(input.dtype)
    matrix = _widened(weight, weight_scales, weight_zero_points, wide)
    return (input.to(wide) @ matrix).to(input.dtype)


def _mixed_linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_scales: torch.Tensor,
    weight_zero_points: torch.Tensor | None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    wide = _wide_type(input.dtype)
    matrix = _widened(weight, weight_scales, weight_zero_points, wide)
    return (input.to(wide) @ matrix.t()).to(dtype or input.dtype)


def _unpacked(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """Unpacked integers: 4-bit ones are stored high half first, 2-bit ones low end first."""
    if bits == 8:
        return weight
    shifts = (4, 0) if bits == 4 else (0, 2, 4, 6)
    wide = weight.to(torch.int32)
    parts = [((wide >> shift) & (2**bits - 1)) - 2 ** (bits - 1) for shift in shifts]
    return torch.stack(parts, dim=-1).flatten(1)


def _embedding(bits: int) -> Callable[..., torch.Tensor]:
    def look_up(
        weight: torch.Tensor,
        weight_scales: torch.Tensor,
        weight_zero_points: torch.Tensor | None,
        weight_quant_min: int,
        weight_quant_max: int,
        indices: torch.Tensor,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        numbers = _unpacked(weight, bits)
        table = _widened(numbers, weight_scales, weight_zero_points, torch.float32)
        return torch.nn.functional.embedding(indices, table).to(dtype or weight_scales.dtype)

    return look_up


def _definitions() -> list[tuple[str, str, str, Callable[..., torch.Tensor]]]:
    """Rows of functional overload, out overload, their arguments, and implementation."""
    tables: list[tuple[str, str, str, Callable[..., torch.Tensor]]] = []
    for name, bits in (("embedding_byte", 8), ("embedding_4bit", 4), ("embedding_2bit", 2)):
        look_up = _embedding(bits)
        tables.append((name, "out", _TABLE, look_up))
        tables.append(
            (f"{name}.dtype", "dtype_out", f"{_TABLE}, *, ScalarType? dtype=None", look_up)
        )
    return [
        ("add", "out", _SUM, _add),
        ("mixed_mm", "out", _MATRIX, _mixed_mm),
        ("mixed_linear", "out", f"{_MATRIX}, ScalarType? dtype=None", _mixed_linear),
        *tables,
    ]


# ---- registration


def _is_registered(name: str) -> bool:
    wanted = f"{NAMESPACE}::{name}".partition(".")
    schemas = torch._C._jit_get_schemas_for_operator(wanted[0])
    return any(schema.overload_name == wanted[2] for schema in schemas)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.quantized_decomposed, packet), overload or "default")


def _define_out(library: Library, name: str, overload: str, arguments: str) -> None:
    """The out overload: computes with the functional one and copies."""
    base = name.partition(".")[0]
    full = f"{base}.{overload}"
    if _is_registered(full):
        return
    outs = ["scale_out", "zero_point_out"] if base.startswith("choose") else ["out"]
    types = [f"Tensor({letter}!)" for letter in "ab"[: len(outs)]]
    star = "" if "*," in arguments else "*, "
    written = ", ".join(f"{kind} {out}" for kind, out in zip(types, outs, strict=True))
    returns = types[0] if len(types) == 1 else f"({', '.join(types)})"
    library.define(f"{full}({arguments}, {star}{written}) -> {returns}")
    function = _overload(name)

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [kwargs.pop(out) for out in outs]
        results = function(*args, **kwargs)
        for out, result in zip(given, [results] if len(outs) == 1 else results, strict=True):
            out.resize_(result.shape).copy_(result)
        return given[0] if len(given) == 1 else tuple(given)

    def shape(*args: Any, **kwargs: Any) -> Any:
        given = [kwargs[out] for out in outs]
        return given[0] if len(given) == 1 else tuple(given)

    library.impl(full, run, "CPU")
    register_fake(f"{NAMESPACE}::{full}", shape, lib=library)


def quantized_tokens(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes int8 of rows of f32, with a scale and a zero point for each, by the operators."""
    register_quantized_ops()
    library = torch.ops.quantized_decomposed
    scale, zero_point = library.choose_qparams_per_token_asymmetric(x, torch.int8)
    codes = library.quantize_per_token(x, scale, zero_point, -128, 127, torch.int8)
    return codes, scale, zero_point


@cache
def register_quantized_ops() -> Library:
    """Define the operators in this process, once; the library lives as long as they do."""
    import_module("torch.ao.quantization.fx._decomposed")
    library = Library(NAMESPACE, "FRAGMENT")
    for name, overload, arguments in _OUT_OF_TORCH:
        _define_out(library, name, overload, arguments)
    for name, overload, arguments, function in _definitions():
        if not _is_registered(name):
            library.define(f"{name}({arguments}) -> Tensor")
            library.impl(name, function, "CompositeExplicitAutograd")
        _define_out(library, name, overload, arguments)
    return library
