"""`llama::quantized_moe_ffn` for export only: its schema and the checks of its arguments.

The operator is a mixture of feed-forward experts whose weights are blobs of torchao's low-bit
kernels. Only torchao's own library reads them, so that the operator has no kernel here: eager runs
and lowering refuse it.
"""

from __future__ import annotations

import torch

from executorch_py.extension.llm.custom_ops.registry import Operator, register

_NAME = "quantized_moe_ffn"
_ARGUMENTS = (
    "Tensor x, Tensor gate_weight, Tensor expert_bias, Tensor packed_w13, Tensor packed_w2, "
    "int num_activated_experts, int num_experts, int hidden_dim, int dim, int group_size, "
    "int weight_nbit, str score_func, float route_scale"
)


def _check(condition: bool, name: str, expected: str, got: object) -> None:
    """Raises AssertionError, the class that upstream's checks of this operator raise."""
    if not condition:
        raise AssertionError(f"{_NAME}: {name}: expected {expected}, got {got}")


def _check_tensor(
    tensor: torch.Tensor, name: str, dtype: torch.dtype, shape: tuple[int | None, ...]
) -> None:
    """Checks a type and a shape; a size of None may be any."""
    sizes = tuple(tensor.shape)
    same = len(sizes) == len(shape) and all(
        b is None or a == b for a, b in zip(sizes, shape, strict=True)
    )
    wanted = ", ".join("any size" if n is None else str(n) for n in shape)
    got = f"{tensor.dtype} [{', '.join(map(str, sizes))}]"
    _check(same and tensor.dtype == dtype, name, f"{dtype} [{wanted}]", got)


def _shape(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    expert_bias: torch.Tensor,
    packed_w13: torch.Tensor,
    packed_w2: torch.Tensor,
    num_activated_experts: int,
    num_experts: int,
    hidden_dim: int,
    dim: int,
    group_size: int,
    weight_nbit: int,
    score_func: str,
    route_scale: float,
) -> torch.Tensor:
    _check_tensor(x, "x", torch.float32, (None, dim))
    _check_tensor(gate_weight, "gate_weight", torch.float32, (num_experts, dim))
    n_biases = num_experts if expert_bias.numel() else 0
    _check_tensor(expert_bias, "expert_bias", torch.float32, (n_biases,))
    for name, blob in (("packed_w13", packed_w13), ("packed_w2", packed_w2)):
        _check_tensor(blob, name, torch.uint8, (num_experts, None))
    _check(
        0 < num_activated_experts <= num_experts,
        "num_activated_experts",
        f"1 to {num_experts}",
        num_activated_experts,
    )
    _check(score_func in ("sigmoid", "softmax"), "score_func", "sigmoid or softmax", score_func)
    _check(weight_nbit in (4, 8), "weight_nbit", "4 or 8", weight_nbit)
    _check(group_size > 0, "group_size", "1 or more", group_size)
    for name, size in (("dim", dim), ("hidden_dim", hidden_dim)):
        _check(size > 0, name, "1 or more", size)
        _check(size % group_size == 0, name, f"a multiple of group_size {group_size}", size)
    return x.new_empty(x.shape)


def _run(*args: object, **kwargs: object) -> torch.Tensor:
    raise NotImplementedError(
        f"llama::{_NAME} has no kernel: expected weights in a documented format, got blobs of "
        "torchao's low-bit kernels. Keep the model's own mixture of experts: quantize its linear "
        "layers with torchao's quantize_() before export."
    )


register(Operator(_NAME, _ARGUMENTS, "out", _run, _shape))
