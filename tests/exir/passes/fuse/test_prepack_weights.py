"""With own operators, f32 weights are stored as their kernels read them, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_py.errors import ExecutorchError
from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.serialize import deserialize_pte_binary, serialize_pte_binary
from executorch_py.runtime import Runtime

PACKED = ("executorch_py::packed_linear", "executorch_py::packed_convolution")


def operators(program: Any) -> list[str]:
    plan = program.executorch_program.execution_plan[0]
    calls = [i.instr_args for i in plan.chains[0].instructions]
    return [plan.operators[c.op_index].name for c in calls if hasattr(c, "op_index")]


def both(model: nn.Module, inputs: tuple[Any, ...], **kwargs: Any) -> tuple[Any, list[str]]:
    """The packed program and its operators; its results equal those without packing."""
    with torch.no_grad():
        edge = to_edge(torch.export.export(model.eval(), inputs, **kwargs))
    plain, packed = (
        edge.to_executorch(ExecutorchBackendConfig(own_operators=True, prepack=p))
        for p in (False, True)
    )
    for _ in range(2):
        wanted, got = (leaves(program.run(*inputs)) for program in (plain, packed))
        assert all(torch.equal(a, b) for a, b in zip(wanted, got, strict=True))
    assert not set(operators(plain)) & set(PACKED)
    assert packed.verify(model, *inputs).ok
    return packed, operators(packed)


def leaves(outputs: Any) -> list[torch.Tensor]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def method_memory(program: Any) -> int:
    """Bytes of a method's tables and of memory that its kernels claim."""
    loaded = Runtime.get().load_program(program.buffer, n_threads=1)
    return int(loaded.load_method("forward").memory["method"])


class Net(nn.Module):
    """Layers by name, and a function that calls them."""

    def __init__(self, body: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.body = body
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.body(self, *inputs)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [nn.Identity(), nn.ReLU(), nn.GELU()], ids=str)
def test_a_linear_layer_is_packed_with_its_activation(bias: bool, activation: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(20, 50, bias=bias), activation)
    _, found = both(model, (values(3, 20),))
    assert found == ["executorch_py::packed_linear"]


def test_a_residual_sum_after_a_packed_layer_is_its_epilogue() -> None:
    model = Net(lambda net, x: F.relu(net.linear(x) + x), linear=nn.Linear(32, 32))
    _, found = both(model, (values(5, 32),))
    assert found == ["executorch_py::packed_linear"]


class Images(nn.Module):
    """A network whose images are channels-last, with dense and depthwise convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        blocks = [
            (nn.Conv2d(32, 64, 1), nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.Conv2d(64, 32, 1))
            for _ in range(4)
        ]
        self.blocks = nn.ModuleList(nn.Sequential(*b, nn.ReLU6()) for b in blocks)
        self.head = nn.Linear(32, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self.stem(x))
        for block in self.blocks:
            x = x + block(x)
        return torch.as_tensor(self.head(x.mean((2, 3))))


def test_a_network_of_images_needs_no_memory_for_packed_weights() -> None:
    program, found = both(Images(), (values(2, 3, 32, 32),))
    assert found.count("executorch_py::packed_convolution") == 13
    assert found.count("executorch_py::packed_linear") == 1
    weights = sum(p.numel() for p in Images().parameters()) * 4
    assert method_memory(program) < weights / 2


def test_few_pixels_of_planes_are_packed() -> None:
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
    assert both(model, (values(1, 16, 5, 5),))[1] == ["executorch_py::packed_convolution"]


def test_planes_whose_weights_multiply_from_the_left_are_not_packed() -> None:
    model = nn.Conv2d(3, 32, 3, padding=1)
    assert both(model, (values(1, 3, 24, 24),))[1] == ["aten::convolution"]


def test_a_transposed_convolution_is_not_packed() -> None:
    model = nn.ConvTranspose2d(16, 32, 3, stride=2)
    assert both(model, (values(1, 16, 3, 3),))[1] == ["aten::convolution"]


def test_a_grouped_convolution_is_packed() -> None:
    model = nn.Conv2d(16, 64, 3, groups=2)
    assert both(model, (values(1, 16, 6, 6),))[1] == ["executorch_py::packed_convolution"]


@pytest.mark.parametrize("columns", [1, 5, 17])
def test_a_weight_that_would_grow_by_more_than_a_third_is_not_packed(columns: int) -> None:
    _, found = both(nn.Linear(20, columns), (values(3, 20),))
    assert found == ["aten::addmm"]


def test_a_weight_that_another_operator_reads_is_not_packed() -> None:
    model = Net(
        lambda net, x: (net.linear(x), net.linear.weight * x.mean()), linear=nn.Linear(32, 32)
    )
    assert not set(both(model, (values(3, 32),))[1]) & set(PACKED)


def test_a_layer_that_runs_twice_has_one_packed_weight() -> None:
    model = Net(lambda net, x: net.linear(F.relu(net.linear(x))), linear=nn.Linear(64, 64))
    program, found = both(model, (values(3, 64),))
    assert found == ["executorch_py::packed_linear"] * 2
    assert len(program.buffer) < 2 * 64 * 64 * 4


def test_a_product_of_two_inputs_stays() -> None:
    model = Net(lambda net, a, b: a @ b)
    assert both(model, (values(5, 32), values(32, 32)))[1] == ["aten::mm"]


def test_a_dynamic_batch_has_the_same_bits_at_every_size() -> None:
    batch = Dim("batch", min=1, max=40)
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 48))
    program, found = both(model, (values(7, 30),), dynamic_shapes=({0: batch},))
    assert found == ["executorch_py::packed_linear"] * 2
    for n in (1, 2, 40):
        (got,) = leaves(program.run(values(n, 30)))
        torch.testing.assert_close(got, model(values(n, 30)))


def test_a_dynamic_batch_of_images_has_the_same_bits_at_every_size() -> None:
    batch = Dim("batch", min=1, max=5)
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3))
    program, found = both(model, (values(2, 16, 6, 6),), dynamic_shapes=({0: batch},))
    assert found == ["executorch_py::packed_convolution"] * 2
    for n in (1, 5):
        (got,) = leaves(program.run(values(n, 16, 6, 6)))
        torch.testing.assert_close(got, model(values(n, 16, 6, 6)))


def test_packed_weights_are_aligned_to_cache_lines_in_the_file() -> None:
    program, _ = both(nn.Sequential(nn.Linear(3, 50), nn.Linear(50, 30)), (values(1, 3),))
    offsets = program.executorch_program.constant_segment.offsets
    assert all(offset % 64 == 0 for offset in offsets)


def test_files_without_own_operators_are_not_packed() -> None:
    edge = to_edge(torch.export.export(nn.Linear(32, 32), (values(3, 32),)))
    assert operators(edge.to_executorch(ExecutorchBackendConfig(prepack=True))) == ["aten::addmm"]


@pytest.mark.parametrize("value", [None, "yes", 2])
def test_a_setting_that_is_no_flag_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="prepack: expected True or False"):
        ExecutorchBackendConfig(own_operators=True, prepack=value)


def with_sizes(buffer: bytes, old: list[int], new: list[int]) -> bytes:
    """The program with other sizes of its tensor of sizes `old`."""
    file = deserialize_pte_binary(buffer)
    (plan,) = file.program.execution_plan
    (found,) = (v.val for v in plan.values if getattr(v.val, "sizes", None) == old)
    found.sizes, found.dim_order = new, list(range(len(new)))
    return bytes(serialize_pte_binary(file))


@pytest.mark.parametrize(
    ("model", "shape", "panels", "wrong"),
    [
        (nn.Linear(30, 64), (4, 30), [1, 4, 30, 16], [[1, 2, 60, 16], [4, 1, 30, 16], [1920]]),
        (nn.Linear(30, 64), (4, 30), [1, 4, 30, 16], [[1, 3, 30, 16], [1, 4, 29, 16]]),
        (nn.Conv2d(16, 32, 3), (1, 16, 5, 5), [1, 2, 144, 16], [[2, 1, 144, 16], [1, 2, 9, 16]]),
        (nn.Linear(30, 64), (4, 30), [1, 4, 30, 16], [[1, 5, 30, 16], [1, 4, 30, 2**30]]),
    ],
)
def test_a_file_whose_panels_have_wrong_sizes_is_refused_by_a_load(
    model: nn.Module, shape: tuple[int, ...], panels: list[int], wrong: list[list[int]]
) -> None:
    program, _ = both(model, (values(*shape),))
    for sizes in wrong:
        damaged = with_sizes(bytes(program.buffer), panels, sizes)
        with pytest.raises(ExecutorchError, match=r"expected|bytes") as caught:
            Runtime.get().load_program(damaged).load_method("forward")
        assert any(
            word in str(caught.value) for word in ("panels", "weight", "outside its segment")
        ), caught


def test_no_byte_of_a_mapped_file_is_written(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    program, _ = both(model, (values(8, 512),))
    path = tmp_path / "mapped.pte"
    program.save(str(path))
    method = Runtime.get().load_program(path).load_method("forward")
    for _ in range(2):
        method.execute([values(8, 512)])
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = [i for i, line in enumerate(lines) if line.endswith(str(path))]
    kib = dict.fromkeys(("Rss", "Private_Dirty", "Shared_Dirty"), 0)
    for line in (line for i in at for line in lines[i + 1 : i + 20]):
        name, _, rest = line.partition(":")
        if name in kib:
            kib[name] += int(rest.split()[0])
    assert at and kib["Rss"] >= 2048 and kib["Private_Dirty"] == kib["Shared_Dirty"] == 0


def test_weights_of_modules_whose_names_are_no_identifiers_are_packed() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    model.add_module("block-1 of 2", nn.Linear(16, 16))
    _, found = both(model, (values(3, 16),))
    assert found.count("executorch_py::packed_linear") == 2
