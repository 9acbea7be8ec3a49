"""Layers of transformers that are linear layers in another form, as linear layers.

Two kinds are replaced, so that they are quantized and lowered as all others:

    Conv1D     a linear layer that stores its weight transposed (GPT-2)
    experts    the weights of all experts in one tensor, of which each token uses a few

Experts become two linear layers over all of them: the weights of a token's own experts multiply
their activations before the second one, and those of all others are zero. All experts are computed
for each token.
"""

from __future__ import annotations

from typing import Any

import torch

# Attributes of an experts class that transformers dispatches.
_EXPERTS = ("has_gate", "has_bias", "is_transposed", "has_post_expert_norm", "_apply_gate")


def use_linear_layers(model: torch.nn.Module) -> None:
    """Replaces these layers of a model that has its weights, one by one."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "Conv1D" and hasattr(child, "nf"):
                setattr(parent, name, _linear(child.weight.T, child.bias))
            elif is_experts(child) and not child.has_post_expert_norm:
                setattr(parent, name, AllExperts(child))


def is_experts(module: Any) -> bool:
    """Whether a module holds experts in the layout that transformers dispatches."""
    return all(hasattr(module, name) for name in _EXPERTS)


class AllExperts(torch.nn.Module):
    """The experts of a layer: forward(rows [T, n], chosen i64 [T, k], weights [T, k]) -> [T, n]."""

    def __init__(self, experts: Any) -> None:
        """Takes the weights out of a module of transformers."""
        super().__init__()
        self.class_name = type(experts).__name__
        first = "gate_up_proj" if experts.has_gate else "up_proj"
        inner, outer = getattr(experts, first), experts.down_proj
        if experts.is_transposed:
            inner, outer = inner.transpose(1, 2), outer.transpose(1, 2)
        self.n_experts = inner.shape[0]
        bias = getattr(experts, f"{first}_bias").flatten() if experts.has_bias else None
        self.inner = _linear(inner.flatten(0, 1), bias)
        self.outer = _linear(outer.transpose(0, 1).flatten(1), None)
        self.outer_bias = experts.down_proj_bias if experts.has_bias else None
        for name in list(experts._parameters):
            delattr(experts, name)
        self.activation = experts

    def forward(
        self, rows: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        is_chosen = chosen.unsqueeze(-1) == torch.arange(self.n_experts)
        share = (is_chosen * weights.unsqueeze(-1)).sum(1)
        x = self.inner(rows).unflatten(-1, (self.n_experts, -1))
        x = (
            self.activation._apply_gate(x)
            if self.activation.has_gate
            else self.activation.act_fn(x)
        )
        # Experts that are not chosen may overflow.
        x = torch.where(share.unsqueeze(-1) == 0, 0.0, x * share.unsqueeze(-1))
        out: torch.Tensor = self.outer(x.flatten(1))
        return out if self.outer_bias is None else out + share @ self.outer_bias


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> torch.nn.Linear:
    """A linear layer of these tensors, in their dtype."""
    n_out, n_in = weight.shape
    layer = torch.nn.Linear(n_in, n_out, bias=bias is not None, device="meta")
    layer.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    return layer
