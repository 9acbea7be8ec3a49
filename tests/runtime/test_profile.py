"""Profiles: every executed instruction with its calls, shapes, time, arithmetic and bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py import _C, errors
from executorch_py.cli.main import main
from executorch_py.cli.profile import profile_text
from executorch_py.exir import schema as s
from executorch_py.exir import to_edge
from executorch_py.runtime import InstructionProfile, NodeProfile, Runtime

X = np.ones((64, 64), np.float32)


def test_a_profile_has_a_record_of_each_instruction() -> None:
    method = Runtime.get().load_program(program_bytes(adder((64, 64)))).load_method("forward")
    (add,) = method.profile([X, X], runs=np.int64(3))
    assert (add.instruction, add.operator, add.calls) == (0, "aten::add.out", 1)
    assert add.tensors == (("f32", (64, 64)),) * 3
    assert add.bytes == add.moved_bytes == 3 * X.nbytes
    assert add.flops is None
    assert add.seconds > 0
    np.testing.assert_array_equal(method.execute([X, X])[0], X + X)


def test_a_chain_is_listed_in_order() -> None:
    method = MethodMaker()
    x, alpha = method.tensor([4]), method.scalar(1)
    y, z = method.tensor([4]), method.tensor([4])
    method.inputs.append(x)
    method.call("aten::add.out", x, x, alpha, y, y)
    method.call("aten::mul.out", y, x, z, z)
    method.outputs.append(z)
    loaded = Runtime.get().load_program(program_bytes(method)).load_method("forward")
    profile = loaded.profile([np.ones(4, np.float32)])
    assert [p.operator for p in profile] == ["aten::add.out", "aten::mul.out"]
    assert profile[0].bytes == 2 * 16  # x counts once


def test_moves_jumps_and_frees_write_nothing() -> None:
    method = MethodMaker()
    x, y, moved = (method.tensor([4]) for _ in range(3))
    condition, freed = method.tensor([2], "bool"), method.tensor([4], planned=False)
    method.inputs += [x, condition]
    method.add(x, x, y)
    method.instructions.append(s.Instruction(s.MoveCall(y, moved)))
    method.jump_if_false(condition, 3)
    method.instructions.append(s.Instruction(s.FreeCall(freed)))
    method.outputs.append(moved)
    loaded = Runtime.get().load_program(program_bytes(method)).load_method("forward")
    profile = loaded.profile([np.ones(4, np.float32), np.ones(2, np.bool_)])
    counted = [(p.operator, p.bytes, p.written) for p in profile]
    assert counted == [("aten::add.out", 32, 16), ("move", 0, 0), ("jump", 2, 0), ("free", 0, 0)]


def test_a_profile_of_wrong_inputs_is_refused_and_the_method_stays_usable() -> None:
    method = Runtime.get().load_program(program_bytes(adder((64, 64)))).load_method("forward")
    with pytest.raises(errors.NotSupported):
        method.profile([X, X[:1]])
    with pytest.raises(ValueError, match="expected 1 or more runs, got 0"):
        method.profile([X, X], runs=0)
    assert len(method.profile([X, X])) == 1


def test_every_run_of_a_profile_reads_the_inputs_anew() -> None:
    class Ids(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(10, 64)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return (self.table(ids) + 1000.0).exp().sum(-1)

    ids = torch.tensor([[1, 9]])
    program = to_edge(torch.export.export(Ids(), (ids,))).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    # An address that is not aligned: the input is copied to planned memory, where results follow.
    misaligned = np.frombuffer(b"....." + ids.numpy().tobytes(), np.int64, offset=5).reshape(1, 2)
    assert method.profile([misaligned], runs=3)


GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.skipif("XnnpackBackend" not in _C.backend_names(), reason="built without XNNPACK")
def test_a_delegates_nodes_are_listed_in_order() -> None:
    method = Runtime.get().load_program(GOLDEN / "xnnpack.pte").load_method("forward")
    x = np.ones(method.metadata.input_tensor_meta(0).sizes(), np.float32)
    before = method.execute([x])[0]
    profile = method.profile([x], runs=2)
    (delegate,) = [p for p in profile if p.operator == "XnnpackBackend"]
    assert [node.name for node in delegate.nodes] == ["Binary Elementwise (ND)"] * 2
    assert all(node.debug_handle is not None for node in delegate.nodes)
    np.testing.assert_array_equal(method.execute([x])[0], before)


def test_the_table_sums_nodes_by_name() -> None:
    nodes = tuple(NodeProfile(name, 0.25) for name in ("Softmax", "Copy", "Softmax"))
    profile = InstructionProfile(0, "XnnpackBackend", 1, 1.0, 0, (), nodes=nodes)
    lines = profile_text([profile], 1).splitlines()
    assert lines[3].split() == ["100.0%", "1000.000", "1", "XnnpackBackend"]
    assert lines[4].split() == ["50.0%", "500.000", "2", "Softmax"]
    assert lines[5].split() == ["25.0%", "250.000", "1", "Copy"]


def product(operator: str, *shapes: tuple[int, ...], calls: int = 1) -> InstructionProfile:
    return InstructionProfile(
        0, operator, calls, 1.0, 10, tuple(("f32", s) for s in shapes), written=4
    )


def test_arithmetic_is_counted_for_products_and_convolutions() -> None:
    assert product("aten::mm.out", (2, 3), (3, 5), (2, 5)).flops == 2 * 2 * 3 * 5
    assert product("aten::addmm.out", (5,), (2, 3), (3, 5), (2, 5), calls=4).flops == 240
    assert product("aten::linear.out", (7, 2, 3), (5, 3), (7, 2, 5)).flops == 420
    image, weight, out = (1, 3, 8, 8), (16, 3, 3, 3), (1, 16, 6, 6)
    assert product("aten::convolution.out", image, weight, out).flops == 2 * 16 * 36 * 27
    packed = "executorch_py::packed_convolution.out"
    assert product(packed, image, (1, 1, 27, 16), out).flops == 2 * 16 * 36 * 27
    assert product("executorch_py::packed_linear.out", (2, 3), (1, 1, 3, 16), (2, 5)).flops == 60


def test_readers_of_a_part_are_charged_for_that_part() -> None:
    picked = product("aten::select_copy.int_out", (9,), (1,))
    assert picked.moved_bytes == 2 * 10 * 4 // 40
    assert product("executorch_prim::add.Scalar").moved_bytes is None


def test_the_command_line_shows_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes(program_bytes(adder((64, 64))))
    assert main(["run", str(path), "--ones", "--profile"]) == 0
    text = capsys.readouterr().out
    assert "profile: 1 instructions" in text
    assert "100.0%" in text and "aten::add.out" in text and "GB/s" in text
    assert "roof, measured with" in text and "% of roof" in text


def test_a_size_of_a_tensor_has_no_share_of_the_roofline() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full((x.shape[0], 2), 3.0) + x.sum()

    shapes = ({0: torch.export.Dim("rows", max=8)},)
    exported = torch.export.export(Rows(), (torch.ones(4, 3),), dynamic_shapes=shapes)
    program = to_edge(exported).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    profile = method.profile([torch.ones(4, 3)], runs=1)
    sizes = [p for p in profile if p.operator.startswith("aten::sym_size")]
    assert sizes and all(p.moved_bytes is None and p.roofline is None for p in sizes)
    assert all(p.roofline is not None for p in profile if p.operator == "aten::sum.IntList_out")
    line = next(text for text in profile_text(profile, 1).splitlines() if "sym_size" in text)
    assert "roof" not in line and "GB/s" not in line
