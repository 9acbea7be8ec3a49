"""`llama::fast_hadamard_transform` and `llama::gated_delta_rule`, registered with torch on import.

The first multiplies rows by a Hadamard matrix. The second is linear attention with a state that
decays and is corrected at each step; queries may have more heads than the states, in groups that
read one state. The kernels are in csrc/kernels/op/hadamard.c and
csrc/kernels/op/attention/gated_delta_rule.c.
"""

from __future__ import annotations

import math

import torch

from executorch_py.extension.llm.custom_ops.registry import Operator, register

# The Hadamard matrix of order 28 as four by four circulant matrices of order 7. Bits that are set
# in the first row of each stand for +1, the others for -1.
_CIRCULANTS = (
    (0x01, 0x3C, 0x5A, 0x66),
    (0x43, 0x01, 0x19, 0x5A),
    (0x25, 0x66, 0x01, 0x43),
    (0x19, 0x25, 0x3C, 0x01),
)


def _matrix_of_28(dtype: torch.dtype) -> torch.Tensor:
    rows = [
        [1.0 if _CIRCULANTS[i // 7][j // 7] >> (j - i) % 7 & 1 else -1.0 for j in range(28)]
        for i in range(28)
    ]
    return torch.tensor(rows, dtype=dtype)


def _check_rows(mat: torch.Tensor) -> torch.Tensor:
    n = mat.size(-1)
    width = n // 28 if n % 28 == 0 else n
    torch._check(
        width & (width - 1) == 0,
        lambda: f"expected rows of 2^k or 28 * 2^k elements, got {n}",
    )
    return torch.empty_like(mat, memory_format=torch.contiguous_format)


def _fast_hadamard_transform(mat: torch.Tensor) -> torch.Tensor:
    n = _check_rows(mat).size(-1)
    if mat.numel() == 0:
        return mat.clone()
    x = mat if mat.dtype == torch.float64 else mat.float()
    width = n // 28 if n % 28 == 0 else n
    x = x.reshape(*mat.shape[:-1], n // width, width)
    half = 1
    while half < width:
        pairs = x.unflatten(-1, (-1, 2, half))
        a, b = pairs.select(-2, 0), pairs.select(-2, 1)
        x = torch.stack([a + b, a - b], -2).flatten(-3)
        half *= 2
    x = x / math.sqrt(width)
    if n != width:
        x = _matrix_of_28(x.dtype).t() @ x
    return x.flatten(-2).to(mat.dtype)


def _gated_delta_rule_shape(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    torch._check(
        key.dim() == 4
        and query.dim() == 4
        and query.shape[0] == key.shape[0]
        and query.shape[2:] == key.shape[2:]
        and value.dim() == 4
        and value.shape[:3] == key.shape[:3],
        lambda: (
            "expected query, key and value of [batch, head, step, dim], got "
            f"{query.shape}, {key.shape}, {value.shape}"
        ),
    )
    torch._check(
        query.size(1) == _group(query, key) * key.size(1),
        lambda: f"query: expected a multiple of key's {key.size(1)} heads, got {query.size(1)}",
    )
    torch._check(
        decay.shape in (key.shape, key.shape[:3]) and beta.shape == key.shape[:3],
        lambda: (
            f"expected decay of shape {key.shape} or {key.shape[:3]} and beta of {key.shape[:3]}, "
            f"got {decay.shape} and {beta.shape}"
        ),
    )
    torch._check(
        initial_state.shape == (*key.shape[:2], key.size(3), value.size(3)),
        lambda: (
            "initial_state: expected "
            f"{[*key.shape[:2], key.size(3), value.size(3)]}, got {initial_state.shape}"
        ),
    )
    results = value.new_empty((*query.shape[:3], value.size(3)))
    return results, initial_state.new_empty(initial_state.shape)


def _group(query: torch.Tensor, key: torch.Tensor) -> int:
    """The heads of queries that read the state of one head of keys and values."""
    return query.size(1) // key.size(1) if key.size(1) else 0


def _gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    empty, _ = _gated_delta_rule_shape(query, key, value, decay, beta, initial_state)
    state, results = initial_state.clone(), []
    queries = query.unflatten(1, (key.size(1), _group(query, key)))
    factors = decay if decay.dim() == 4 else decay.unsqueeze(-1)
    for t in range(key.size(2)):
        k = key[:, :, t, :, None]
        state = state * factors[:, :, t, :, None]
        correction = (value[:, :, t] - (state * k).sum(-2)) * beta[:, :, t, None]
        state = state + k * correction.unsqueeze(-2)
        read = (state.unsqueeze(2) * queries[:, :, :, t, :, None]).sum(-2)
        results.append(read.flatten(1, 2))
    return torch.stack(results, 2) if results else empty, state


_DELTA_RULE = (
    "Tensor query, Tensor key, Tensor value, Tensor decay, Tensor beta, Tensor initial_state"
)
for _operator in (
    Operator("fast_hadamard_transform", "Tensor mat", "out", _fast_hadamard_transform, _check_rows),
    *(
        Operator(
            name,
            _DELTA_RULE,
            "out, final_state_out",
            _gated_delta_rule,
            _gated_delta_rule_shape,
            apart=("final_state_out", "initial_state"),
        )
        for name in ("gated_delta_rule", "channelwise_gated_delta_rule")
    ),
):
    register(_operator)
