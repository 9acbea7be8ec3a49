"""Plans over memory banks: limits, pins, ties with greedy, and programs that run from two memories.

One bank gives greedy's plan; any number of banks gives a sound plan within their sizes, or an
error that names them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.c_build import build_c
from support.tolerance import F32_MODEL, assert_near
from torch import fx

from executorch_py.cli.main import main
from executorch_py.exir import ExecutorchBackendConfig, ExecutorchProgramManager, to_edge
from executorch_py.exir.banked_memory_planning import (
    Bank,
    BankedGreedy,
    BankPlacementError,
    TargetMemoryMap,
    banked_memory_planning_pass,
    format_placement_report,
    planned_mem_ids,
)
from executorch_py.exir.memory_planning import MemoryAlgoResult, greedy
from executorch_py.exir.schema import DeviceType
from executorch_py.exir.tensor import TensorSpec
from executorch_py.runtime import Runtime

GRAPH = fx.GraphModule(torch.nn.Module(), fx.Graph())
BANKS = (Bank("sram", 4096, 1), Bank("dram", 1 << 20, 2))


def tensor(nbytes: int, first: int = 0, last: int = 9, mem_id: int | None = None) -> TensorSpec:
    spec = TensorSpec(torch.uint8, [nbytes])
    spec.lifetime = [first, last]
    spec.mem_id = mem_id
    return spec


def plan(
    specs: Sequence[TensorSpec], banks: Sequence[Bank] = BANKS, padding: int = 0
) -> MemoryAlgoResult:
    return BankedGreedy(TargetMemoryMap(banks))(16, specs, GRAPH, None, padding)


def memories(specs: Sequence[TensorSpec], banks: Sequence[Bank] = BANKS) -> list[int]:
    placed = plan(specs, banks).spec_dict
    return [placed[spec].mem_id for spec in specs]


# ---- placing

LIFETIMES = st.lists(
    st.tuples(st.integers(1, 2000), st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=25
)


@given(LIFETIMES)
@settings(max_examples=60, deadline=None)
def test_one_bank_gives_the_plan_of_greedy(asked: list[tuple[int, int, int]]) -> None:
    ours = [tensor(size, first, first + length) for size, first, length in asked]
    others = [tensor(size, first, first + length) for size, first, length in asked]
    found = plan(ours, [Bank("all", 1 << 20, 1)])
    wanted = greedy(16, others, GRAPH, None, 0)
    assert found.bufsizes == wanted.bufsizes
    assert [found.spec_dict[s] for s in ours] == [wanted.spec_dict[s] for s in others]


@given(LIFETIMES)
@settings(max_examples=60, deadline=None)
def test_no_bank_is_exceeded_and_no_tensors_overlap(asked: list[tuple[int, int, int]]) -> None:
    specs = [tensor(size, first, first + length) for size, first, length in asked]
    result = plan(specs, [Bank("sram", 4096, 2, alignment=32), Bank("dram", 1 << 20, 1)])
    assert result.bufsizes[2] <= 4096
    places = [(result.spec_dict[s], s) for s in specs]
    for i, (a, one) in enumerate(places):
        assert a.mem_offset % (32 if a.mem_id == 2 else 16) == 0
        assert a.mem_offset + one.allocated_memory <= result.bufsizes[a.mem_id]
        for b, other in places[:i]:
            apart = (
                a.mem_id != b.mem_id
                or a.mem_offset + one.allocated_memory <= b.mem_offset
                or b.mem_offset + other.allocated_memory <= a.mem_offset
            )
            first, last = one.lifetime, other.lifetime
            alive = not (first[1] < last[0] or last[1] < first[0])  # type: ignore[operator]
            assert apart or not alive


def test_tensors_spill_to_the_next_bank() -> None:
    specs = [tensor(2048) for _ in range(3)]
    assert sorted(memories(specs)) == [1, 1, 2]
    assert plan(specs).bufsizes == [0, 4096, 2048]


def test_the_order_of_banks_is_their_preference() -> None:
    assert memories([tensor(64)], [Bank("dram", 512, 2), Bank("sram", 512, 1)]) == [2]


def test_a_pinned_tensor_keeps_its_memory_and_its_room() -> None:
    pinned, free = tensor(256, mem_id=1), [tensor(2048) for _ in range(2)]
    assert memories([*free, pinned]) == [2, 1, 1]
    assert memories([tensor(64, mem_id=7), tensor(64)]) == [7, 1]


def test_free_tensors_share_memory_with_pinned_ones() -> None:
    specs = [tensor(1024, 0, 4, mem_id=1), tensor(1024, 5, 9)]
    assert plan(specs).bufsizes == [0, 1024, 0]


def test_views_lie_in_the_memory_of_their_base() -> None:
    base, view = tensor(1024, mem_id=2), tensor(256)
    view.storage_base, view.storage_base_offset = base, 512
    result = plan([base, view])
    assert (result.spec_dict[view].mem_id, result.spec_dict[view].mem_offset) == (2, 512)
    assert result.bufsizes == [0, 0, 1024]


def test_padding_of_delegates_counts_in_banks_that_are_used() -> None:
    assert plan([tensor(256)], padding=64).bufsizes == [0, 320, 0]
    assert plan([tensor(16)], [Bank("sram", 32, 1), BANKS[1]], padding=64).bufsizes == [0, 0, 80]


# ---- errors


@pytest.mark.parametrize("reserved", [[0, 7, 100], [0, 8, 96]])
def test_tensors_are_aligned_behind_memory_of_any_reserved_size(reserved: list[int]) -> None:
    banks = [Bank("sram", 64, 1, alignment=32), Bank("dram", 4096, 2)]
    gm = fx.GraphModule(torch.nn.Module(), fx.Graph())
    gm.input_mem_buffer_sizes = reserved
    specs = [tensor(20), tensor(40), tensor(40)]
    result = BankedGreedy(TargetMemoryMap(banks))(16, specs, gm)
    places = [(r.mem_id, r.mem_offset) for r in (result.spec_dict[spec] for spec in specs)]
    first = -(-reserved[2] // 16) * 16
    assert places == [(1, 32), (2, first + 48), (2, first)]
    assert result.bufsizes == [0, 64, first + 96]


def test_a_tensor_without_room_is_refused_with_the_banks() -> None:
    with pytest.raises(
        BankPlacementError, match="needs 4096 bytes, got free bytes sram 1024 of 1024"
    ):
        plan([tensor(4096)], [Bank("sram", 1024, 1)])
    with pytest.raises(BankPlacementError, match=r"pinned to bank sram .* got 4096 of 4096"):
        plan([tensor(8192, mem_id=1)])


@pytest.mark.parametrize(
    ("banks", "words"),
    [
        ([], "expected one bank or more"),
        ([BANKS[0], Bank("sram", 64, 3)], "expected a name for each"),
        ([BANKS[0], Bank("tcm", 64, 1)], "expected a mem_id for each"),
    ],
)
def test_a_map_of_wrong_banks_is_refused(banks: list[Bank], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TargetMemoryMap(banks)


def test_a_wrong_bank_is_refused() -> None:
    with pytest.raises(ValueError, match="bank x: size: expected 1 or more, got 0"):
        Bank("x", 0, 1)
    with pytest.raises(ValueError, match="bank x: mem_id: expected 1 or more, got 0"):
        Bank("x", 8, 0)
    with pytest.raises(ValueError, match="bank x: alignment: expected 1 or more, got 0"):
        Bank("x", 8, 1, 0)
    with pytest.raises(BankPlacementError, match="multiple of the plan's 16, got 24"):
        plan([tensor(8)], [Bank("x", 64, 1, alignment=24)])


def test_unknown_banks_and_other_devices_are_refused() -> None:
    target = TargetMemoryMap(BANKS)
    with pytest.raises(ValueError, match=r"expected one of \[1, 2\], got 3"):
        target.bank(3)
    with pytest.raises(ValueError, match="got 'tcm'"):
        target.mem_id("tcm")
    away = tensor(8)
    away.device = DeviceType.CUDA
    with pytest.raises(BankPlacementError, match="got some on CUDA"):
        plan([away])
    with pytest.raises(ValueError, match="share_mutable_buffers"):
        banked_memory_planning_pass(target, share_mutable_buffers=True)


# ---- end to end


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(4, 4, 3, padding=1)
        self.second = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.second(torch.relu(self.first(x))))


X = torch.linspace(-1, 1, 4 * 16 * 16).reshape(1, 4, 16, 16)


def program_in(*banks: Bank) -> tuple[Net, ExecutorchProgramManager]:
    torch.manual_seed(0)
    model = Net().eval()
    config = ExecutorchBackendConfig(
        memory_planning_pass=banked_memory_planning_pass(TargetMemoryMap(banks))
    )
    return model, to_edge(torch.export.export(model, (X,))).to_executorch(config)


def test_a_program_in_two_memories_gives_the_numbers_of_eager() -> None:
    banks = Bank("sram", 4096, 1), Bank("dram", 1 << 20, 2)
    model, program = program_in(*banks)
    sizes = program.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sizes[0] == 0 and 0 < sizes[1] <= 4096 and sizes[2] > 0
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert list(method.memory["planned"]) == sizes[1:]
    with torch.no_grad():
        assert_near(method.execute([X])[0], model(X), F32_MODEL)
    ids = planned_mem_ids(program.exported_program().graph_module)
    report = format_placement_report(TargetMemoryMap(banks), sizes, ids)
    assert f"sram       1  {sizes[1]}" in report and str(ids.count(2)) in report


def test_the_runner_in_c_gives_each_memory_a_buffer(tmp_path: Path) -> None:
    model, program = program_in(Bank("sram", 4096, 1), Bank("dram", 1 << 20, 2))
    path = tmp_path / "banked.pte"
    program.save(path)
    runner = build_c("release", "et_run") / "et_run"
    command = [runner, path, "--input", "0=ones", "--output", tmp_path / "result"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers = bytearray((tmp_path / "result0.bin").read_bytes())
    found = torch.frombuffer(numbers, dtype=torch.float32).reshape(X.shape)
    with torch.no_grad():
        assert_near(found, model(torch.ones_like(X)), F32_MODEL)


def test_inspect_shows_the_use_of_banks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, program = program_in(Bank("sram", 4096, 1), Bank("dram", 1 << 20, 2))
    path = tmp_path / "banked.pte"
    program.save(path)
    used = program.executorch_program.execution_plan[0].non_const_buffer_sizes
    banks = ["--bank", "sram:1:4096", "--bank", "dram:2:100"]
    assert main(["inspect", str(path), *banks]) == 0
    text = capsys.readouterr().out
    assert f"memory 1, sram: {used[1]} of 4096 bytes\n" in text
    assert f"memory 2, dram: {used[2]} of 100 bytes, {used[2] - 100} too many\n" in text
    assert main(["inspect", str(path), "--bank", "sram"]) == 1
    assert "--bank: expected NAME:MEMORY:BYTES" in capsys.readouterr().err


def test_a_pass_of_the_user_pins_tensors_to_a_bank() -> None:
    pass_ = banked_memory_planning_pass(TargetMemoryMap(BANKS))
    plain_run = pass_.run

    def run(graph_module: fx.GraphModule, signature: object = None) -> object:
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and "relu" in str(node.target):
                node.meta["spec"].mem_id = 2
        return plain_run(graph_module, signature)  # type: ignore[arg-type]

    pass_.run = run  # type: ignore[assignment,method-assign]
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    exported = torch.export.export(model.eval(), (torch.ones(1, 4),))
    program = to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=pass_))
    sizes = program.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sizes[1] > 0 and sizes[2] >= 32
    program.verify(model, torch.ones(1, 4))
