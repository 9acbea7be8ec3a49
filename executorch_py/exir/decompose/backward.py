"""Operators of joint graphs, which torch's tables leave whole: attention's backward, batch norm.

A joint graph is the result of torch.export.experimental._export_forward_backward. Other graphs keep
a batch norm with the statistics of each batch, so that export can ask for model.eval().
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

_aten = torch.ops.aten


def is_joint(program: ExportedProgram) -> bool:
    """Whether a program returns gradients."""
    specs = program.graph_signature.output_specs
    return any(spec.kind is OutputKind.GRADIENT_TO_PARAMETER for spec in specs)


def backward_decompositions() -> dict[Any, Any]:
    """Decompositions for every program; the operators exist in joint graphs only."""
    return {_aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention}


def joint_decompositions() -> dict[Any, Any]:
    """Further decompositions, for joint graphs only."""
    from torch._decomp import get_decompositions

    return dict(get_decompositions([_aten._native_batch_norm_legit_functional.default]))


def _attention(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """The gradients of query, key and value.

    Weights are computed again: decomposing the forward operator leaves `logsumexp` without its
    meaning.
    """
    if dropout_p != 0.0:
        return NotImplemented
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.mT * factor
    if is_causal:
        rows, columns = query.shape[-2], key.shape[-2]
        allowed = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(allowed.logical_not(), -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = _aten._safe_softmax.default(scores, -1)
    of_weights = grad_out @ value.mT
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    return of_scores @ key * factor, of_scores.mT @ query * factor, weights.mT @ grad_out
