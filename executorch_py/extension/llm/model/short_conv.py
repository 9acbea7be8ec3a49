"""Gated short convolution: what layers of LFM2 have in place of attention.

A token's result depends on its own columns and those of the KERNEL - 1 tokens before it, which are
the state between calls. A state has the newest columns alone: it cannot go back.
"""

from __future__ import annotations

import torch

from executorch_py.extension.llm.model.caches import Step

KERNEL = 3  # columns that a result sees, its own included: params have no key for it


class ShortConv(torch.nn.Module):
    """out_proj(C · conv(B · x)), where B, C and x are products with the input, and conv is causal.

    forward(input [1, S, dim]) -> [1, S, dim], in the dtype of the input. With `dtype`, a buffer of
    it, `conv_state` [1, KERNEL - 1, dim], keeps the last columns B · x between calls; a call at
    position 0 reads zeros in their place. Without, each call is a whole context.
    """

    conv_state: torch.Tensor

    def __init__(self, dim: int, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.B_proj, self.C_proj, self.x_proj = (_linear(dim) for _ in range(3))
        self.out_proj = _linear(dim)
        # Kernels in the shape of checkpoints, [dim, 1, KERNEL], one for each element of a row.
        self.conv = torch.nn.Conv1d(dim, dim, KERNEL, groups=dim, bias=False, device="meta")
        self.has_state = dtype is not None
        if dtype is not None:
            self.register_buffer("conv_state", torch.zeros(1, KERNEL - 1, dim, dtype=dtype))

    def forward(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        mixed = self._mixed(self.B_proj(x) * self.x_proj(x), step)
        result: torch.Tensor = self.out_proj(self.C_proj(x) * mixed)
        return result

    def _mixed(self, columns: torch.Tensor, step: Step) -> torch.Tensor:
        """The convolution over rows of elements: [1, S, dim] -> [1, S, dim].

        Sums of products of whole rows have the same bits for any number of tokens in a call, and
        need no transposed copy.
        """
        nothing = torch.zeros((), dtype=columns.dtype)
        if self.has_state:
            before = torch.where(step.begins, nothing, self.conv_state)
        else:
            before = nothing.expand(1, KERNEL - 1, columns.shape[-1])
        seen = torch.cat((before, columns), 1)
        if self.has_state:
            self.conv_state.copy_(seen.narrow(1, step.length, KERNEL - 1))
        kernel = self.conv.weight.squeeze(1).t()
        result = seen.narrow(1, 0, step.length) * kernel[0]
        for i in range(1, KERNEL):
            result = result + seen.narrow(1, i, step.length) * kernel[i]
        return result


def _linear(dim: int) -> torch.nn.Linear:
    """A layer whose weight has no values yet."""
    return torch.nn.Linear(dim, dim, bias=False, device="meta")
