"""Models with a key/value cache: exported with the llama:: operators and run on the C runtime.

Each step equals eager torch, and caches are updated in place.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

import executorch_py.extension.llm.custom_ops.custom_ops  # noqa: F401
from executorch_py.exir import ExecutorchProgramManager, to_edge
from executorch_py.exir.error import ExportError
from executorch_py.runtime import Runtime
from executorch_py.testing import assert_parity

llama = torch.ops.llama
CONTEXT = 12


class CachedAttention(torch.nn.Module):
    """Attention of four query heads over two key/value heads."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.project = torch.nn.Linear(16, 16 + 8 + 8)
        self.register_buffer("keys", torch.zeros(1, CONTEXT, 2, 4))
        self.register_buffer("values", torch.zeros(1, CONTEXT, 2, 4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        q, k, v = self.project(x).split([16, 8, 8], -1)
        q, k, v = q.reshape(1, n, 4, 4), k.reshape(1, n, 2, 4), v.reshape(1, n, 2, 4)
        start = position[0].item()
        torch._check(start >= 0)
        torch._check(start + n <= CONTEXT)
        rest: tuple[Any, ...] = (None, 0.0, True)
        if self.how == "one call":
            y = llama.sdpa_with_kv_cache(q, k, v, self.keys, self.values, start, n, *rest)
        elif self.how == "mask":
            llama.update_cache_with_indices(k, self.keys, start, position[None])
            llama.update_cache_with_indices(v, self.values, start, position[None])
            mask = torch.arange(CONTEXT)[None] <= position[:, None]
            mask = torch.where(mask, 0.0, -torch.inf)
            y = llama.custom_sdpa(q, self.keys, self.values, start, mask)
        else:
            llama.update_cache(k, self.keys, start)
            llama.update_cache(v, self.values, start)
            y = llama.custom_sdpa(q, self.keys, self.values, start, *rest)
        return x + y.reshape(1, n, 16)


def lower(model: torch.nn.Module, inputs: tuple[Any, ...]) -> ExecutorchProgramManager:
    with torch.no_grad():
        return to_edge(torch.export.export(model, inputs)).to_executorch()


def steps(n: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [
        (torch.randn(1, n, 16), torch.arange(at, at + n)) for at in range(0, CONTEXT + 1 - n, n)
    ]


@pytest.mark.parametrize("how", ["update and attend", "one call", "mask"])
@pytest.mark.parametrize("n", [1, 4])
def test_a_cache_over_several_steps_equals_eager(how: str, n: int) -> None:
    torch.manual_seed(0)
    model = CachedAttention(how).eval()
    program = lower(model, (torch.randn(1, n, 16), torch.arange(n)))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    for x, position in steps(n):
        with torch.no_grad():
            expected = model(x, position)
        torch.testing.assert_close(method.execute([x, position])[0], expected)


@pytest.mark.parametrize("how", ["update and attend", "one call", "mask"])
def test_one_program_runs_prompts_and_single_tokens(how: str) -> None:
    torch.manual_seed(0)
    model = CachedAttention(how).eval()
    n = torch.export.Dim("n", min=1, max=8)
    shapes = {"x": {1: n}, "position": {0: n}}
    inputs = (torch.randn(1, 4, 16), torch.arange(4))
    with torch.no_grad():
        exported = torch.export.export(model, inputs, dynamic_shapes=shapes)
        program = to_edge(exported).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    for begin, end in ((0, 5), (5, 6), (6, 9), (9, 12)):
        x, position = torch.randn(1, end - begin, 16), torch.arange(begin, end)
        with torch.no_grad():
            expected = model(x, position)
        torch.testing.assert_close(method.execute([x, position])[0], expected)


def test_a_position_past_the_cache_is_an_error_that_names_it() -> None:
    model = CachedAttention("update and attend").eval()
    program = lower(model, (torch.randn(1, 1, 16), torch.arange(1)))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    with pytest.raises(Exception, match=f"got start_pos {CONTEXT} and 1 positions"):
        method.execute([torch.randn(1, 1, 16), torch.tensor([CONTEXT])])


def test_caches_are_updated_in_place() -> None:
    program = lower(CachedAttention("update and attend"), (torch.randn(1, 1, 16), torch.arange(1)))
    called = [str(op.name) for op in program.executorch_program.execution_plan[0].operators]
    assert "llama::update_cache" in called and "llama::custom_sdpa" in called
    assert not {"aten::copy_", "aten::clone", "aten::copy", "aten::alias_copy"} & set(called)


class ReadsOldCache(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 4, 1, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.cache.clone().reshape(4, 2)
        llama.update_cache(x, self.cache, 1)
        return before * 2, self.cache + 1


class UpdatesItsOwnTensor(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        work = x + 1
        other = work.reshape(4, 2)
        llama.update_cache(x[:, :2], work, 2)
        return work, other.sum(0)


class UpdatesItsInput(torch.nn.Module):
    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        llama.update_cache(x, cache, 3)
        return cache * 2


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (ReadsOldCache(), [(1, 2, 1, 2)]),
        (UpdatesItsOwnTensor(), [(1, 4, 1, 2)]),
        (UpdatesItsInput(), [(1, 1, 1, 2), (1, 4, 1, 2)]),
    ],
    ids=lambda m: type(m).__name__,
)
def test_old_contents_that_are_read_later_are_kept(model: torch.nn.Module, shapes: Any) -> None:
    torch.manual_seed(0)
    given = [tuple(torch.randn(s) for s in shapes) for _ in range(3)]
    method = Runtime.get().load_program(lower(model, given[0]).buffer).load_method("forward")
    for buffer in model.buffers():
        buffer.zero_()
    for inputs in given:
        results = method.execute([t.clone() for t in inputs])
        expected = model(*[t.clone() for t in inputs])
        expected = [expected] if isinstance(expected, torch.Tensor) else expected
        for got, want in zip(results, expected, strict=False):
            torch.testing.assert_close(got, want)


class UpdatesAPart(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("caches", torch.zeros(3, 1, 4, 1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        llama.update_cache(x, self.caches[1], 0)
        return self.caches + 1


def test_an_update_of_a_view_is_an_error_that_names_it() -> None:
    with pytest.raises(
        ExportError, match=r"expected a whole tensor as argument .cache., got a view"
    ):
        lower(UpdatesAPart(), (torch.randn(1, 1, 1, 2),))


def test_importing_the_package_registers_nothing() -> None:
    code = (
        "import executorch_py, executorch_py.extension.llm.custom_ops, torch\n"
        "assert not hasattr(torch.ops.llama, 'update_cache')\n"
        "import executorch_py.extension.llm.custom_ops.custom_ops\n"
        "assert hasattr(torch.ops.llama, 'update_cache')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Mixers(torch.nn.Module):
    """Image tiles, their Hadamard transform, linear attention over the result."""

    def forward(self, image: torch.Tensor, decay: torch.Tensor) -> Any:
        tiles = torch.ops.preprocess.tile_crop(image, 4)
        rows = llama.fast_hadamard_transform(tiles.flatten(2))
        heads = rows.unflatten(2, (4, 4))
        state = torch.zeros(heads.shape[0], heads.shape[1], 4, 4)
        beta = heads.mean(-1).sigmoid()
        return tiles, rows, llama.gated_delta_rule(heads, heads * 0.1, heads, decay, beta, state)


def test_mixing_operators_are_exported_and_equal_eager() -> None:
    import executorch_py.extension.llm.custom_ops.op_tile_crop_aot  # noqa: F401

    torch.manual_seed(0)
    assert_parity(Mixers(), (torch.rand(3, 8, 8), torch.rand(4, 3, 4)))


def moe_arguments(**changed: Any) -> dict[str, Any]:
    """Arguments of quantized_moe_ffn: three rows of 32, four experts, empty blobs of weights."""
    blob = torch.zeros(4, 9, dtype=torch.uint8)
    names = {"x": (3, 32), "gate_weight": (4, 32), "expert_bias": (4,)}
    return {
        **{name: torch.rand(shape) for name, shape in names.items()},
        **{"packed_w13": blob, "packed_w2": blob},
        **{"num_activated_experts": 2, "num_experts": 4, "hidden_dim": 64, "dim": 32},
        **{"group_size": 32, "weight_nbit": 4, "score_func": "softmax", "route_scale": 1.0},
        **changed,
    }


def on_meta(arguments: dict[str, Any]) -> dict[str, Any]:
    return {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}


def test_a_mixture_of_packed_experts_has_a_shape_and_no_kernel() -> None:
    class Experts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return llama.quantized_moe_ffn(**{**moe_arguments(), "x": x})

    assert llama.quantized_moe_ffn(**on_meta(moe_arguments())).shape == (3, 32)
    x = torch.rand(3, 32)
    with pytest.raises(NotImplementedError, match=r"quantized_moe_ffn has no kernel.*torchao"):
        Experts()(x)
    with pytest.raises(ExportError, match=r"llama::quantized_moe_ffn.out.*no kernel"):
        lower(Experts(), (x,))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x": torch.rand(1, 3, 32)}, r"x: expected torch.float32 \[any size, 32\], got .*3, 32"),
        ({"gate_weight": torch.rand(4, 32).half()}, "gate_weight: expected torch.float32"),
        ({"expert_bias": torch.rand(3)}, r"expert_bias: expected torch.float32 \[4\], got .*\[3\]"),
        ({"packed_w2": torch.rand(4, 9)}, "packed_w2: expected torch.uint8"),
        ({"num_activated_experts": 5}, "num_activated_experts: expected 1 to 4, got 5"),
        ({"score_func": "gelu"}, "score_func: expected sigmoid or softmax, got gelu"),
        ({"weight_nbit": 3}, "weight_nbit: expected 4 or 8, got 3"),
        ({"group_size": 0}, "group_size: expected 1 or more, got 0"),
        ({"group_size": 7}, "dim: expected a multiple of group_size 7, got 32"),
    ],
)
def test_wrong_arguments_of_packed_experts_are_refused_as_upstream_refuses_them(
    changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        llama.quantized_moe_ffn(**on_meta(moe_arguments(**changed)))


def test_packed_experts_without_a_bias_are_accepted() -> None:
    arguments = on_meta(moe_arguments(expert_bias=torch.empty(0)))
    assert llama.quantized_moe_ffn(**arguments).dtype == torch.float32
