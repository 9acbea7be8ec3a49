"""Sizes of dynamic inputs: those that the exported program allows, and no others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from support.program_maker import adder, program_bytes
from torch.export import Dim, export

from executorch_py import _C, errors
from executorch_py.exir import to_edge
from executorch_py.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from executorch_py.runtime import Method, Runtime
from executorch_py.runtime.signature import Follows


class Scale(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return x + y, z * 2


def exported() -> bytes:
    """A program of x and y with equal first dims, and z with an even number of rows up to 32."""
    rows, pairs = Dim("rows", min=1, max=8), Dim("pairs", min=1, max=16)
    inputs = (torch.ones(3, 4), torch.ones(3, 4), torch.ones(6, 2))
    shapes = ({0: rows}, {0: rows}, {0: 2 * pairs})
    return to_edge(export(Scale(), inputs, dynamic_shapes=shapes)).to_executorch().buffer


@pytest.fixture(scope="module")
def program() -> bytes:
    return exported()


@pytest.fixture
def method(program: bytes) -> Method:
    return Runtime.get().load_program(program).load_method("forward")


def given(*shapes: tuple[int, ...], kind: str) -> list[Any]:
    if kind == "torch":
        return [torch.ones(shape) for shape in shapes]
    return [np.ones(shape, np.float32) for shape in shapes]


WRONG = [
    (((3, 5), (3, 4), (6, 2)), "input 0 ('x').*got shape [3, 5]: dim 1: expected 4, got 5"),
    (((8, 3), (8, 4), (6, 2)), "input 0 ('x').*dim 1: expected 4, got 3"),
    (((0, 4), (0, 4), (6, 2)), "input 0 ('x').*dim 0: expected 1…8, got 0"),
    (((9, 2), (9, 2), (6, 2)), "input 0 ('x').*dim 0: expected 1…8, got 9"),
    (((9, 4), (9, 4), (6, 2)), "float32 tensor of shape [1…8, 4]"),
    (
        ((3, 4), (1, 4), (6, 2)),
        "input 1 ('y').*dim 0: expected 3, because dim 0 of input 0 ('x') is 3, got 1",
    ),
    (((3, 4), (3, 4), (5, 2)), "input 2 ('z').*dim 0: expected a multiple of 2, got 5"),
    (((3, 4), (3, 4), (34, 2)), "input 2 ('z').*dim 0: expected 4…32, got 34"),
    (((3, 4), (12,), (6, 2)), "input 1 ('y').*: expected a float32 tensor .*, got shape [12]"),
]


def pattern(text: str) -> str:
    return text.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[").replace("]", r"\]")


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(("shapes", "message"), WRONG)
def test_a_shape_outside_the_exported_bounds_is_refused_by_dim(
    method: Method, shapes: Any, message: str, kind: str
) -> None:
    with pytest.raises(errors.NotSupported, match=pattern(message)):
        method.execute(given(*shapes, kind=kind))
    right = method.execute(given((3, 4), (3, 4), (6, 2), kind=kind))
    assert [tuple(out.shape) for out in right] == [(3, 4), (6, 2)]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_every_shape_inside_the_exported_bounds_runs(method: Method, kind: str) -> None:
    for rows, pairs in ((1, 2), (8, 16), (5, 3), (8, 2)):
        shapes = ((rows, 4), (rows, 4), (2 * pairs, 2))
        outputs = method.execute(given(*shapes, kind=kind))
        assert [tuple(out.shape) for out in outputs] == [(rows, 4), (2 * pairs, 2)]


def test_inputs_of_another_layout_are_held_to_the_same_bounds(method: Method) -> None:
    transposed = torch.ones(4, 3).T
    assert method.execute([transposed, torch.ones(3, 4), torch.ones(6, 2)])[0].shape == (3, 4)
    assert method.layout_conversions == 1
    with pytest.raises(errors.NotSupported, match="dim 1: expected 4, got 5"):
        method.execute([torch.ones(5, 3).T, torch.ones(3, 4), torch.ones(6, 2)])


def test_the_older_interface_checks_the_same_bounds(program: bytes) -> None:
    module = _load_for_executorch_from_buffer(program)
    with pytest.raises(errors.NotSupported, match="dim 1: expected 4, got 5"):
        module.forward(given((3, 5), (3, 4), (6, 2), kind="torch"))


def test_the_signature_has_bounds_and_symbols_of_sizes(method: Method) -> None:
    x, y, z = method.signature.inputs
    assert x.shape == y.shape == ((1, 8), 4)
    assert x.follows == y.follows == (Follows("s0"), None)
    assert (z.shape, z.follows) == (((4, 32), 2), (Follows("s1", 2, 0), None))
    assert method.signature.outputs[0].follows == (Follows("s0"), None)


def test_a_size_with_a_symbol_of_its_own_has_no_symbol_to_check() -> None:
    one = export(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", max=8)},))
    program = Runtime.get().load_program(to_edge(one).to_executorch().buffer)
    assert program.signature.input_bounds() == [[(0, 8, -1, 1, 0), (4, 4, -1, 1, 0)]]


def test_a_dim_that_occurs_twice_in_one_input_must_be_square() -> None:
    class Square(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x.T

    n = Dim("n", min=2, max=8)
    ep = export(Square(), (torch.ones(3, 3),), dynamic_shapes=({0: n, 1: n},))
    method = Runtime.get().load_program(to_edge(ep).to_executorch().buffer).load_method("forward")
    assert method.execute([np.ones((5, 5), np.float32)])[0].shape == (5, 5)
    with pytest.raises(errors.NotSupported, match="dim 1: expected 5, because dim 0 of input 0"):
        method.execute([np.ones((5, 4), np.float32)])


def test_a_dim_that_is_another_plus_one_must_be() -> None:
    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y[1:]

    n = Dim("n", min=2, max=8)
    shapes = ({0: n}, {0: n + 1})
    ep = export(Shifted(), (torch.ones(3), torch.ones(4)), dynamic_shapes=shapes)
    method = Runtime.get().load_program(to_edge(ep).to_executorch().buffer).load_method("forward")
    assert method.execute([np.ones(7, np.float32), np.ones(8, np.float32)])[0].shape == (7,)
    with pytest.raises(errors.NotSupported, match="dim 0: expected 8, because dim 0 of input 0"):
        method.execute([np.ones(7, np.float32), np.ones(7, np.float32)])


def test_a_file_without_bounds_keeps_the_plans_rule() -> None:
    program = Runtime.get().load_program(program_bytes(adder((4, 5), dynamic=True)))
    method = program.load_method("forward")
    assert method.execute([np.ones((2, 10), np.float32)] * 2)[0].shape == (2, 10)
    with pytest.raises(errors.NotSupported, match=r"up to \[4, 5\], got shape \[3, 10\]"):
        method.execute([np.ones((3, 10), np.float32)] * 2)


LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def with_shape(shape: Any) -> bytes:
    """The program adder((4, 5)) with this shape of its first input in the signature."""
    pair = {"type": "builtins.tuple", "context": "null", "children_spec": [LEAF, LEAF]}
    empty = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    root: dict[str, Any] = {"type": "builtins.tuple", "context": "null"}
    root["children_spec"] = [pair, empty]
    root["signature"] = {"inputs": [{"name": "x", "shape": shape}, {"name": "y"}], "outputs": [{}]}
    maker = adder((4, 5), dynamic=True)
    maker.structures = (json.dumps([1, root]), "")
    return program_bytes(maker)


@pytest.mark.parametrize(
    "dim",
    [
        None,
        "4",
        True,
        -1,
        99,
        1.5,
        [],
        [1],
        [3, 2],
        [-1, 4],
        [0, 99],
        [0, 2**40],
        [None, 4],
        [0, True],
        ["0", "4"],
        {"lower": 0},
    ],
)
def test_invalid_bounds_of_a_file_are_ignored(dim: Any) -> None:
    method = Runtime.get().load_program(with_shape([dim, 5])).load_method("forward")
    assert method.signature.inputs[0].shape == ((0, 4), 5)
    assert method.execute([np.ones((2, 5), np.float32)] * 2)[0].shape == (2, 5)


@pytest.mark.parametrize(
    "rest", [[3], [None, 1, 0], ["s", 0, 0], ["s", 1.0, 0], ["s", 1, 2**40], ["s", 2**31, 0]]
)
def test_invalid_relations_of_a_file_are_ignored(rest: Any) -> None:
    method = Runtime.get().load_program(with_shape([[1, 4, *rest], 5])).load_method("forward")
    assert method.signature.inputs[0].follows == (None, None)
    assert method.execute([np.ones((2, 5), np.float32)] * 2)[0].shape == (2, 5)


BAD_BOUNDS = [
    ([None], "expected bounds or None for each of 2 inputs, got 1"),
    ([[(0, 4, -1, 1, 0)], None], "bounds of input 0: expected 2 dims, got 1"),
    ([[(0, 4, -1, 1, 0), 5], None], "dim 1: expected .*, got 5"),
    ([[(0, 4, -1, 1, 0), ("a", 1, 1, 1, 1)], None], "dim 1: expected"),
    ([[(0, 4, -1, 1, 0), (5, 4, -1, 1, 0)], None], "lower <= upper"),
    ([[(0, 4, -1, 1, 0), (0, 5, 4, 1, 0)], None], "a symbol below 4"),
    ([[(0, 4, -1, 1, 0), (0, 5, 0, 0, 0)], None], "a scale of 1 or more"),
]


@pytest.mark.parametrize(("bounds", "message"), BAD_BOUNDS)
def test_invalid_bounds_are_errors_and_set_none(bounds: Any, message: str) -> None:
    method = _C.open_program(program_bytes(adder((4, 5), dynamic=True))).load_method("forward")
    with pytest.raises(errors.InvalidArgument, match=message):
        method.bound_inputs(bounds)
    assert method.execute([np.ones((2, 10), np.float32)] * 2)[0].shape == (2, 10)


def test_bounds_cannot_widen_what_the_plan_has_memory_for() -> None:
    method = _C.open_program(program_bytes(adder((4, 5), dynamic=True))).load_method("forward")
    method.bound_inputs([[(0, 400, -1, 1, 0), (5, 5, -1, 1, 0)]] * 2)
    with pytest.raises(errors.NotSupported, match=r"got shape \[5, 5\]"):
        method.execute([np.ones((5, 5), np.float32)] * 2)


def test_an_offset_relation_names_what_it_needs() -> None:
    method = _C.open_program(program_bytes(adder((9, 5), dynamic=True))).load_method("forward")
    method.bound_inputs([[(0, 9, 0, 4, 1), (5, 5, -1, 1, 0)], None])
    with pytest.raises(
        errors.NotSupported, match="dim 0: expected 1 more than a multiple of 4, got 8"
    ):
        method.execute([np.ones((8, 5), np.float32)] * 2)
    assert method.execute([np.ones((9, 5), np.float32)] * 2)[0].shape == (9, 5)
