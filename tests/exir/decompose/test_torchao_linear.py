"""Products of int8 matrices: one file for every processor, and exact sums in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.low_bit_network import INDICES, by_torchao
from support.processor import PROCESSORS, processor
from torch import Tensor, nn
from torch._higher_order_ops.out_dtype import out_dtype

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge, to_edge_transform_and_lower
from executorch_py.exir.decompose.torchao_linear import restore_linear_layers

INT8 = "Int8DynamicActivationInt8WeightConfig"
SETTINGS: dict[str, dict[str, Any]] = {
    "symmetric": {},
    "asymmetric": {"act_mapping_type": "ASYMMETRIC"},
    "one scale": {"act_mapping_type": "ASYMMETRIC", "granularity": ("PerTensor",)},
}


def exported(cpu: str, settings: str) -> torch.export.ExportedProgram:
    with processor(cpu), torch.no_grad():
        return torch.export.export(by_torchao(INT8, **SETTINGS[settings]), (INDICES,))


def file(cpu: str, settings: str, delegate: bool) -> bytes:
    program, partitioner = exported(cpu, settings), [XnnpackPartitioner()] if delegate else []
    edge = to_edge_transform_and_lower(program, partitioner=partitioner)
    return edge.to_executorch().buffer


def operators(program: torch.export.ExportedProgram) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


def test_torchao_chooses_its_form_by_instruction_set() -> None:
    """Precondition of the tests below: torchao chooses its form by the instruction set."""
    forms = {cpu: operators(exported(cpu, "symmetric")) for cpu in PROCESSORS}
    assert forms["no VNNI"] == forms["VNNI and AMX"] != forms["VNNI"]


@pytest.mark.parametrize(
    ("settings", "delegate"),
    [("symmetric", False), ("symmetric", True), ("asymmetric", False), ("one scale", False)],
)
def test_a_file_is_the_same_for_every_processor_that_wrote_it(
    settings: str, delegate: bool
) -> None:
    assert file("VNNI", settings, delegate) == file("no VNNI", settings, delegate)


@pytest.mark.parametrize("cpu", ["no VNNI", "VNNI"])
def test_a_program_that_was_decomposed_before_computes_the_same_integers(cpu: str) -> None:
    with torch.no_grad():
        wanted = by_torchao(INT8)(INDICES)
    program = exported(cpu, "symmetric").run_decompositions()
    assert torch.equal(to_edge(program).to_executorch().run(INDICES), wanted)


# ---- forms that are no linear layer


class Product(nn.Module):
    """Rows quantized as torchao does it, times a matrix of int8 in some form."""

    def __init__(self, form: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        matrix = torch.randint(-128, 128, (24, 64), dtype=torch.int8, generator=generator)
        self.form, self.matrix = form, nn.Buffer(matrix)

    def forward(self, x: Tensor) -> Tensor:
        ops, limits = torch.ops.torchao, (torch.int8, -128, 127)
        scales, zeros = ops.choose_qparams_affine(
            x, "SYMMETRIC", [1, 64], *limits, None, torch.float32, torch.int8, True
        )
        integers = ops.quantize_affine(x, [1, 64], scales, zeros, *limits)
        product: Tensor = self.form(integers, self.matrix.t()).to(torch.float32) * scales
        return product * torch.full((24,), 0.5)


def unsigned(x: Tensor, offset: int = 128) -> Tensor:
    return (x.to(torch.int32) + offset).to(torch.uint8)


def sums(w: Tensor, dim: int = 0) -> Tensor:
    return w.sum(dim=dim, keepdim=True, dtype=torch.int32)


FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "another correction": lambda x, w: torch._int_mm(unsigned(x), w) - 64 * sums(w),
    "another offset": lambda x, w: torch._int_mm(unsigned(x, 127), w) - sums(w) * 127,
    "sums of rows": lambda x, w: torch._int_mm(unsigned(x), w) - sums(w, 1)[:24].t() * 128,
    "sums of another matrix": lambda x, w: torch._int_mm(unsigned(x), w) - sums(w.flip(0)) * 128,
    "added": lambda x, w: torch._int_mm(unsigned(x), w) + sums(w) * 128,
    "a flipped bit": lambda x, w: torch._int_mm(x.view(torch.uint8) ^ 128, w) - sums(w) * 128,
    "wide integers": lambda x, w: torch.matmul(x.to(torch.int32), w.to(torch.int32)),
    "out_dtype": lambda x, w: out_dtype(torch.ops.aten.mm.default, torch.int32, x, w),
    "none": lambda x, w: x[:, :24],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_product_of_an_unknown_form_is_computed_exactly(form: str) -> None:
    model, x = Product(FORMS[form]), torch.randn(3, 64)
    program = torch.export.export(model, (x,))
    assert restore_linear_layers(program) is program
    assert torch.equal(to_edge(program).to_executorch().run(x), model(x))


def test_a_delegate_leaves_products_of_unknown_forms_to_kernels() -> None:
    model, x = Product(FORMS["a flipped bit"]), torch.randn(3, 64)
    program = torch.export.export(model, (x,))
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    assert torch.equal(edge.to_executorch().run(x), model(x))


@pytest.mark.parametrize(
    "form", [torch._int_mm, lambda x, w: torch._int_mm(unsigned(x), w) - sums(w) * 128]
)
def test_both_forms_are_known_when_they_are_written_by_hand(form: Any) -> None:
    program = restore_linear_layers(torch.export.export(Product(form), (torch.randn(3, 64),)))
    assert torch.ops.aten.linear.default in operators(program)


def test_integers_that_a_compiler_sees_as_floats_are_summed_exactly() -> None:
    """A traced safe_int_mm of torchao, which multiplies floats."""
    from torchao.kernel.intmm import safe_int_mm

    class Long(nn.Module):
        def forward(self, x: Tensor, w: Tensor) -> Tensor:
            product: Tensor = safe_int_mm(x, w)
            return product

    x = torch.full((2, 2049), 127, dtype=torch.int8)
    x[1, ::2] -= 1
    program = to_edge(torch.export.export(Long(), (x, x.t()))).to_executorch()
    assert torch.equal(program.run(x, x.t().contiguous()), Long()(x, x.t()))
