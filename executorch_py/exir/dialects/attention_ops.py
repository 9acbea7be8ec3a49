"""`executorch_py::cached_attention`: rotary embedding, append to a key/value cache, and attention
over it, in one call (csrc/kernels/lib/panel_attention.h).

A cache is stored in the panels that the kernels read: `cache_shapes` gives its tensors. Only this
project's runtime has the operator. Importing this module defines it in torch, where it is plain
torch on the same caches.

`sinks` first positions are seen beside the window, as in StreamingLLM: they keep their slots, and
the query at position p is as far from them as one at position min(p, sinks + window - 1) would be.
The tables cos and sin have that last position's row behind those of the call's own positions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.library import Library, register_fake

from executorch_py.exir.dialects.own_ops import LIBRARY

# Columns of a panel, and codes of a key that are side by side.
PANEL = 16
QUAD = 4
KINDS = {"f32": torch.float32, "f16": torch.float16, "i8": torch.int8}

_NAME = "cached_attention"
_ARGUMENTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? cos, Tensor? sin, SymInt start_pos, "
    "Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor(c!)? key_scales, Tensor(d!)? key_sums, "
    "Tensor(e!)? value_scales, int capacity, int window, float scale, float softcap, "
    "bool interleaved, int sinks=0"
)


def cache_shapes(
    kind: str, batch: int, heads: int, capacity: int, dim: int, value_dim: int | None = None
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and dtypes of a cache's tensors, by the operator's argument names.

    `kind` is the type of the stored keys and values: "f32", "f16" or "i8". The tensors begin as
    zeros. With a sliding window w and s sinks, a capacity of s + w - 1 + the most positions of one
    call is enough for any number of positions.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    if capacity < 1:
        raise ValueError(f"capacity: expected 1 or more, got {capacity}")
    dtype, panels = KINDS[kind], -(-capacity // PANEL)
    keys: tuple[int, ...] = (batch, heads, panels, dim, PANEL)
    if kind == "i8":
        keys = (batch, heads, panels, -(-dim // QUAD), PANEL, QUAD)
    width = dim if value_dim is None else value_dim
    values = (batch, heads, -(-width // PANEL), panels * PANEL, PANEL)
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "key_cache": (keys, dtype),
        "value_cache": (values, dtype),
    }
    if kind == "i8":
        shapes["key_scales"] = (batch, heads, panels, PANEL), torch.float32
        shapes["key_sums"] = (batch, heads, panels, PANEL), torch.int32
        shapes["value_scales"] = (batch, heads, panels * PANEL), torch.float32
    return shapes


# ---- the parts of a call


def _slots(positions: torch.Tensor, capacity: int, sinks: int) -> torch.Tensor:
    """The slots of positions: the sinks have their own, the others lie in a ring behind them."""
    ring = sinks + (positions - sinks) % (capacity - sinks)
    return torch.where(positions < sinks, positions, ring)


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool
) -> torch.Tensor:
    """Rows [batch, position, head, dim] after the rotary embedding of their first dims."""
    dims = cos.size(1)
    turned, rest = x[..., :dims], x[..., dims:]
    cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        quarter = torch.stack((-b, a), -1).flatten(-2)
    else:
        a, b = turned[..., : dims // 2], turned[..., dims // 2 :]
        quarter = torch.cat((-b, a), -1)
    turned = turned * cos + quarter * sin
    return torch.cat((turned, rest), -1)


def mixed_run(dim: int) -> int:
    """Elements of a run that i8 caches mix: the largest power of two that divides dim, from 16 on;
    16 means that nothing is mixed."""
    run = PANEL
    while dim % (2 * run) == 0:
        run *= 2
    return run


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Rows [..., dim] whose runs are transformed by Hadamard's matrix over elements 16 apart.

    Products of two such rows are mixed_run(dim) / 16 times as large. A few large elements of a
    row, as keys have, are spread, so that codes of 8 bits lose less of the others.
    """
    step, run = PANEL, mixed_run(x.size(-1))
    while step < run:
        a, b = x.unflatten(-1, (-1, 2, step)).unbind(-2)
        x = torch.stack((a + b, a - b), -2).flatten(-3)
        step *= 2
    return x


def quantized_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of rows and a scale for each: max|x| / 127, and halves are rounded to even.

    A row with NaN or an infinity has the scale NaN and codes of 0.
    """
    scale = x.abs().amax(-1) / 127.0
    scale = torch.where(scale.isfinite(), scale, torch.nan)
    divisor = torch.where(scale > 0, scale, 1.0)[..., None]
    codes = torch.where((scale > 0)[..., None], x / divisor, 0.0)
    return codes.round().clamp(-127, 127).to(torch.int8), scale


def _write_rows(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
    """Write values [batch, position, head, dim] into their panels."""
    n = rows.size(3)
    padded = torch.nn.functional.pad(rows, (0, -n % PANEL))
    panels = padded.unflatten(3, (-1, PANEL)).permute(0, 2, 3, 1, 4)
    kept = cache[:, :, :, slots].clone()
    keep = torch.arange(cache.size(2) * PANEL).reshape(-1, 1, PANEL) >= n
    cache[:, :, :, slots] = torch.where(keep, kept, panels.to(cache.dtype))


def _write_keys(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
    """Write keys [batch, position, head, dim] into their panels."""
    panel, lane = slots // PANEL, slots % PANEL
    if cache.dtype == torch.int8:
        n = rows.size(3)
        padded = torch.nn.functional.pad(rows, (0, -n % QUAD)).unflatten(3, (-1, QUAD))
        cache.permute(2, 4, 0, 1, 3, 5)[panel, lane] = padded.permute(1, 0, 2, 3, 4)
    else:
        cache.permute(2, 4, 0, 1, 3)[panel, lane] = rows.permute(1, 0, 2, 3).to(cache.dtype)


def cached_keys(cache: torch.Tensor, scales: torch.Tensor | None, dim: int) -> torch.Tensor:
    """The keys of a cache as floats, [batch, head, slot, dim]."""
    if scales is None:
        return cache.transpose(3, 4).flatten(2, 3).float()
    codes = cache.permute(0, 1, 2, 4, 3, 5).flatten(4).flatten(2, 3)[..., :dim]
    return codes.float() * scales.flatten(2)[..., None]


def cached_values(cache: torch.Tensor, scales: torch.Tensor | None, dim: int) -> torch.Tensor:
    """The values of a cache as floats, [batch, head, slot, dim]."""
    values = cache.transpose(2, 3).flatten(3)[..., :dim].float()
    return values if scales is None else values * scales[..., None]


def _attend(
    query: torch.Tensor,
    to_sinks: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    start_pos: int,
    capacity: int,
    window: int,
    scale: float,
    softcap: float,
    sinks: int,
) -> torch.Tensor:
    n, group = query.size(1), query.size(2) // keys.size(1)
    end = start_pos + n
    first = min(sinks, end)
    oldest = max(first, end - n + 1 - window) if window else first
    positions = torch.cat((torch.arange(first), torch.arange(oldest, end)))
    slots = _slots(positions, capacity, sinks)
    k, v = (t[:, :, slots].repeat_interleave(group, 1) for t in (keys, values))
    scores = query.transpose(1, 2) @ k.transpose(2, 3) * scale
    if first:
        scores[..., :first] = to_sinks.transpose(1, 2) @ k[:, :, :first].transpose(2, 3) * scale
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(start_pos, end)[:, None] - positions
    seen = (distance >= 0) & ((distance < window) | (positions < sinks) if window else True)
    weights = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
    if bool(v.isfinite().all()):
        return (weights @ v).transpose(1, 2).contiguous()
    # A value that is not seen is never read: its weight of 0 times NaN would be NaN.
    rows = [weights[:, :, i : i + 1] @ v.masked_fill(~seen[i][:, None], 0.0) for i in range(n)]
    return torch.cat(rows, 2).transpose(1, 2).contiguous()


# ---- the operator


def _check(condition: Any, name: str, expected: object, got: object) -> None:
    torch._check(condition, lambda: f"{_NAME}: {name}: expected {expected}, got {got}")


def _check_rows(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    for name, t in (("query", query), ("key", key), ("value", value)):
        _check(
            t.dim() == 4 and t.dtype == torch.float32,
            name,
            "float32 [batch, position, head, dim]",
            f"{t.dtype} of rank {t.dim()}",
        )
        for d in (0, 1):
            _check(t.size(d) == query.size(d), name, f"the query's size in dim {d}", t.shape)
    _check(key.size(3) == query.size(3), "key", f"head size {query.size(3)}", key.size(3))
    _check(key.size(2) == value.size(2), "key", f"{value.size(2)} heads", key.size(2))
    _check(
        query.size(2) % key.size(2) == 0,
        "query",
        f"heads in a multiple of the key's {key.size(2)}",
        query.size(2),
    )


def _check_rotation(query: torch.Tensor, cos: Any, sin: Any, sinks: int) -> None:
    rows = query.size(1) + 1 if sinks else query.size(1)
    _check((cos is None) == (sin is None), "cos and sin", "both or neither", "one")
    for name, t in (("cos", cos), ("sin", sin)):
        if t is None:
            continue
        _check(t.dim() == 2 and t.dtype == torch.float32, name, "float32 [position, dim]", t.shape)
        _check(t.size(0) == rows, name, f"{rows} positions", t.size(0))
        _check(
            t.size(1) == cos.size(1) and t.size(1) % 2 == 0 and t.size(1) <= query.size(3),
            name,
            f"an even size up to {query.size(3)}",
            t.size(1),
        )


def _check_positions(n: Any, start_pos: Any, capacity: int, window: int, sinks: int) -> None:
    _check(capacity >= 1, "capacity", "1 or more", capacity)
    _check(0 <= window <= capacity, "window", f"0 to the capacity {capacity}", window)
    _check(
        sinks == 0 or (window > 0 and 0 < sinks <= capacity - window),
        "sinks",
        f"0, or a window and at most {capacity - window} beside it",
        sinks,
    )
    _check(start_pos >= 0, "start_pos", "0 or more", start_pos)
    if window == 0:
        _check(start_pos + n <= capacity, "positions", f"at most {capacity}", start_pos + n)
    elif not statically_known_true(start_pos + n <= capacity):
        most = capacity - sinks - window + 1
        _check(n <= most, "positions at once", f"at most {most}", n)


class _Call(NamedTuple):
    """The arguments of a call, in the order of the schema."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    cos: torch.Tensor | None
    sin: torch.Tensor | None
    start_pos: Any
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    key_scales: torch.Tensor | None
    key_sums: torch.Tensor | None
    value_scales: torch.Tensor | None
    capacity: int
    window: int
    scale: float
    softcap: float
    interleaved: bool
    sinks: int = 0


def _shape(*args: Any) -> torch.Tensor:
    """Checks a call, and returns a result without values."""
    c = _Call(*args)
    query, key, value = c.query, c.key, c.value
    _check_rows(query, key, value)
    _check_rotation(query, c.cos, c.sin, c.sinks)
    _check_positions(query.size(1), c.start_pos, c.capacity, c.window, c.sinks)
    kinds = {dtype: kind for kind, dtype in KINDS.items()}
    dtype = c.key_cache.dtype
    _check(dtype in kinds, "key_cache", "float32, float16 or int8", dtype)
    names = ("key_cache", "value_cache", "key_scales", "key_sums", "value_scales")
    given = {name: getattr(c, name) for name in names}
    wanted = cache_shapes(
        kinds[dtype],
        int(key.size(0)),
        int(key.size(2)),
        c.capacity,
        int(key.size(3)),
        int(value.size(3)),
    )
    for name, tensor in given.items():
        if name not in wanted:
            _check(tensor is None, name, "None", "a tensor")
            continue
        shape, dtype = wanted[name]
        _check(tensor is not None, name, "a tensor", "None")
        assert tensor is not None
        same = tuple(tensor.shape) == shape and tensor.dtype == dtype
        _check(same, name, f"{dtype} {shape}", f"{tensor.dtype} {tuple(tensor.shape)}")
    return query.new_empty((*query.shape[:3], value.size(3)))


def _rotated_rows(c: _Call) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, the same for the keys of sinks, and keys, rotated by their positions.

    Distances to sinks end where the window leaves them behind: the tables' last row is that of
    position sinks + window - 1.
    """
    if c.cos is None or c.sin is None:
        return c.query, c.query, c.key
    n = c.query.size(1)
    rows = torch.arange(n)
    far = torch.where(c.start_pos + rows < c.sinks + c.window, rows, c.cos.size(0) - 1)
    own, to_sinks = ((c.cos[at], c.sin[at], c.interleaved) for at in (rows, far))
    return rotated(c.query, *own), rotated(c.query, *to_sinks), rotated(c.key, *own)


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """Rows as their codes give them."""
    codes, scales = quantized_rows(x)
    return codes.float() * scales[..., None]


def _run(*args: Any) -> torch.Tensor:
    empty = _shape(*args)
    if empty.numel() == 0:
        return empty
    c = _Call(*args)
    n, value, scale = c.query.size(1), c.value, c.scale
    query, to_sinks, key = _rotated_rows(c)
    slots = _slots(torch.arange(c.start_pos, c.start_pos + n), c.capacity, c.sinks)
    if c.key_scales is not None and c.key_sums is not None and c.value_scales is not None:
        query, to_sinks, key = (mixed(x) for x in (query, to_sinks, key))
        scale *= PANEL / mixed_run(key.size(3))
        codes, scales = quantized_rows(key)
        _write_keys(c.key_cache, codes, slots)
        for numbers, new in ((c.key_scales, scales), (c.key_sums, codes.int().sum(-1).int())):
            numbers.permute(2, 3, 0, 1)[slots // PANEL, slots % PANEL] = new.transpose(0, 1)
        codes, scales = quantized_rows(value)
        _write_rows(c.value_cache, codes, slots)
        c.value_scales[:, :, slots] = scales.transpose(1, 2)
        query, to_sinks = (_rounded(x) for x in (query, to_sinks))
    else:
        _write_keys(c.key_cache, key, slots)
        _write_rows(c.value_cache, value, slots)
    keys = cached_keys(c.key_cache, c.key_scales, query.size(3))
    values = cached_values(c.value_cache, c.value_scales, value.size(3))
    numbers = (c.start_pos, c.capacity, c.window, scale, c.softcap, c.sinks)
    return _attend(query, to_sinks, keys, values, *numbers)


def _run_out(*args: Any, out: torch.Tensor) -> torch.Tensor:
    result = _run(*args)
    return out.resize_(result.shape).copy_(result)


def _shape_of_out(*_: Any, out: torch.Tensor) -> torch.Tensor:
    return out


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    library.define(f"{_NAME}({_ARGUMENTS}) -> Tensor")
    library.define(f"{_NAME}.out({_ARGUMENTS}, *, Tensor(z!) out) -> Tensor(z!)")
    library.impl(_NAME, _run, "CPU")
    library.impl(f"{_NAME}.out", _run_out, "CPU")
    register_fake(f"{LIBRARY}::{_NAME}", _shape, lib=library)
    register_fake(f"{LIBRARY}::{_NAME}.out", _shape_of_out, lib=library)
    return library


_LIBRARY = _define()
