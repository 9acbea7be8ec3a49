"""Fusion of attention: torch's decomposition, forms written by hand, and lookalikes that stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.transformer_models import SUBJECTS
from torch import nn
from torch.export import Dim, export

from executorch_py.exir import ExecutorchBackendConfig, ExecutorchProgramManager, to_edge

KERNEL = "executorch_py::scaled_dot_product_attention"


class Formula(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def tensors(
    heads: int = 3, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    k, v = torch.randn(2, 3, 50, 8), torch.randn(2, 3, 50, 8)
    return torch.randn(2, heads, 50, 8).to(dtype), k.to(dtype), v.to(dtype)


def lowered(function: Callable[..., Any], *args: torch.Tensor, **kwargs: Any) -> Any:
    exported = export(Formula(function), args, **kwargs)
    return to_edge(exported).to_executorch(ExecutorchBackendConfig(own_operators=True))


def operators(program: ExecutorchProgramManager) -> list[str]:
    plan = program.executorch_program.execution_plan[0]
    return [plan.operators[i.instr_args.op_index].name for i in plan.chains[0].instructions]


def sdpa(**options: Any) -> Callable[..., torch.Tensor]:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: Any) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, *mask, **options) * 2

    return function


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: Any) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    for m in mask:
        scores = scores + m
    return (torch.softmax(scores, -1) @ v) * 2


MASKS: dict[str, tuple[torch.Tensor, ...]] = {
    "none": (),
    "bools": (torch.rand(2, 1, 50, 50) > 0.3,),
    "numbers": (torch.linspace(-2, 2, 2500).reshape(50, 50),),
    "keys": (torch.linspace(-2, 2, 100).reshape(2, 1, 1, 50),),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}], ids=str)
def test_torchs_attention_is_one_call(mask: str, options: dict[str, Any]) -> None:
    args = (*tensors(), *MASKS[mask])
    program = lowered(sdpa(**options), *args)
    assert operators(program) == [KERNEL, "aten::mul"]
    assert program.verify(Formula(sdpa(**options)), *args).ok


def test_a_causal_mask_is_a_flag_and_not_a_tensor() -> None:
    program = lowered(sdpa(is_causal=True), *tensors())
    assert operators(program) == [KERNEL, "aten::mul"]
    assert all(len(b.storage) < 50 for b in program.executorch_program.constant_buffer)
    assert program.verify(Formula(sdpa(is_causal=True)), *tensors()).ok


@pytest.mark.parametrize("mask", ["none", "numbers", "keys"])
@pytest.mark.parametrize("rank", [3, 4])
def test_attention_written_by_hand_is_one_call(mask: str, rank: int) -> None:
    four: tuple[torch.Tensor, ...] = (*tensors(), *MASKS[mask])
    args = tuple(t[0] if rank == 3 and t.dim() == 4 else t for t in four)
    program = lowered(by_hand, *args)
    assert operators(program) == [KERNEL, "aten::mul"]
    assert program.verify(Formula(by_hand), *args).ok


def test_a_row_of_minus_infinity_gives_what_the_program_says() -> None:
    mask = torch.zeros(50, 50)
    mask[3] = -math.inf
    for function in (by_hand, sdpa()):
        program = lowered(function, *tensors(), mask)
        assert operators(program) == [KERNEL, "aten::mul"]
        y, expected = program.run(*tensors(), mask), function(*tensors(), mask)
        torch.testing.assert_close(y, expected, equal_nan=True)
        assert bool(y[:, :, 3].isnan().all()) is (function is by_hand)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_types_run_in_the_type_that_torch_computes_in(dtype: torch.dtype) -> None:
    program = lowered(sdpa(), *tensors(dtype=dtype))
    assert KERNEL in operators(program) and "aten::bmm" not in operators(program)
    assert program.verify(Formula(sdpa()), *tensors(dtype=dtype)).ok


def test_shared_heads_and_dynamic_lengths() -> None:
    args = tensors(6)
    n = Dim("n", min=2, max=90)
    for given, options in ((args, {"enable_gqa": True}), (tensors(), {"is_causal": True})):
        shapes = (({2: n},) * 3,)
        program = lowered(sdpa(**options), *given, dynamic_shapes=shapes)
        assert KERNEL in operators(program) and "aten::_softmax" not in operators(program)
        assert program.verify(Formula(sdpa(**options)), *given).ok


def test_multihead_attention_of_torch_becomes_one_kernel() -> None:
    model = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = torch.randn(2, 20, 32)

    def attend(x: torch.Tensor) -> torch.Tensor:
        return model(x, x, x, need_weights=False)[0]

    program = lowered(attend, x)
    assert KERNEL in operators(program) and "aten::_softmax" not in operators(program)
    assert program.verify(Formula(attend), x).ok


def weights_too(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    weights = torch.softmax(q @ k.transpose(-1, -2), -1)
    return weights @ v, weights


def masked_before_scaling(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax((q @ k.transpose(-1, -2) + q[..., :1]) * 0.3, -1) @ v


def over_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), -2) @ v


def no_transposition(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q[..., :8, :] @ k[..., :8, :], -1) @ v[..., :8, :]


@pytest.mark.parametrize(
    "function", [weights_too, masked_before_scaling, over_queries, no_transposition]
)
def test_what_only_looks_like_attention_is_left_alone(function: Callable[..., Any]) -> None:
    program = lowered(function, *tensors())
    assert KERNEL not in operators(program)
    assert program.verify(Formula(function), *tensors()).ok


def test_without_the_setting_nothing_is_fused() -> None:
    exported = export(Formula(sdpa()), tensors())
    assert KERNEL not in operators(to_edge(exported).to_executorch())


def biased_in_windows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Shifted windows (Swin): one bias of positions, and a mask per window, in other views."""
    bias, windows = torch.arange(7500.0).reshape(1, 3, 50, 50).sin(), 2
    hidden = torch.where(torch.arange(5000).reshape(1, windows, 1, 50, 50) % 7 == 0, -100.0, 0.0)
    scores = q @ k.transpose(-1, -2) * 0.3 + bias
    scores = (scores.view(-1, windows, 3, 50, 50) + hidden).view(-1, 3, 50, 50)
    return (torch.softmax(scores, -1) @ v) * 2


def filled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    later = torch.ones(50, 50, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-2, -1) * 0.3).masked_fill(later, -math.inf)
    return (torch.softmax(scores, -1) @ v) * 2


def filled_by_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    hidden = (k[..., 0] > 0.5).unsqueeze(-2)
    scores = (q @ k.transpose(-2, -1) * 0.3).masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1) @ v


def positions_before_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Keys whose permutations for heads and for the product became one."""
    q, k, v = (x.permute(0, 2, 1, 3).contiguous() * 1.5 for x in (q, k, v))
    scores = q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1)
    return (torch.softmax(scores, -1) @ v.permute(0, 2, 1, 3)) * 2


@pytest.mark.parametrize(
    "function", [biased_in_windows, filled, filled_by_keys, positions_before_heads]
)
def test_masks_and_permutations_in_other_forms_are_one_call(function: Callable[..., Any]) -> None:
    program = lowered(function, *tensors())
    assert KERNEL in operators(program) and "aten::_softmax" not in operators(program)
    assert program.verify(Formula(function), *tensors()).ok


# Layers of each.
MODELS = {"bert": 2, "distilbert": 2, "gpt2": 2, "llama": 2, "t5": 2, "vit": 2, "clip": 2}


@pytest.mark.filterwarnings("ignore")  # the library's own, of which its releases have many
@pytest.mark.parametrize("name", MODELS)
def test_every_attention_of_a_transformer_is_one_call(name: str) -> None:
    subject = SUBJECTS[name]
    model, args = subject.build(), subject.inputs()
    with torch.no_grad():
        exported = export(model, args, dynamic_shapes=subject.dynamic_shapes)
    settings = ExecutorchBackendConfig(own_operators=True)
    program = to_edge(exported).to_executorch(settings)
    assert operators(program).count(KERNEL) == MODELS[name]
    assert "aten::_softmax" not in operators(program)
    assert program.verify(model, *args).ok


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_of_torch_with_masks(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first)
    model = layer.eval()
    x, padding = torch.randn(2, 20, 32), torch.zeros(2, 20)
    padding[1, 15:] = -math.inf
    later = torch.full((20, 20), -math.inf).triu(1)

    def encode(x: torch.Tensor) -> Any:
        return model(x, src_mask=later, src_key_padding_mask=padding)

    program = lowered(encode, x)
    assert operators(program).count(KERNEL) == 1 and "aten::_softmax" not in operators(program)
    assert program.verify(Formula(encode), x).ok
