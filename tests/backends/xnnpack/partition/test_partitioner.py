"""XnnpackPartitioner: delegates at least upstream's nodes; others have reasons; results agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import pytest
import torch
from support import xnnpack_delegation_cases as cases
from support.paths import SUPPORT
from support.tolerance import (
    DELEGATED,
    DELEGATED_QUANTIZED,
    EXACT,
    F32_LAYERS,
    LAYERS_STEPS,
    SMALL_LAYER_STEPS,
    assert_near,
)
from support.xnnpack_quantized_cases import Padded, rounded
from torch import Tensor, nn
from torch.export import export
from torch.utils import _pytree as pytree

from executorch_py.backends.xnnpack.partition import xnnpack_partitioner
from executorch_py.backends.xnnpack.partition.config import (
    AddConfig,
    ConfigPrecisionType,
    LinearConfig,
    ReLUConfig,
    xnnpack_config,
)
from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
    XnnpackQuantizedPartitioner,
)
from executorch_py.backends.xnnpack.support import capability as support
from executorch_py.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.backend.delegation_summary import DelegationSummary
from executorch_py.exir.backend.reports import reason_of
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.lowered_backend_module import get_lowered_backend_modules

UPSTREAM = json.loads((SUPPORT / "xnnpack_upstream_delegation.json").read_text())
UNCHECKED = EdgeCompileConfig(_check_ir_validity=False)
# Reasons of nodes that stay and that upstream delegates: free outside, or refused at load.
BETTER_OUTSIDE = (
    "it moves elements",
    "a reshape at the edge",
    "7 dimensions",
    "its result has no dimensions",
    "nothing that reads it is delegated",  # a conversion to floats for operators outside
)
# Parts of the names of quantized modules.
ROUGH = ("dynamic_int8", "8da", "per_tensor", "per_channel", "_quantized", "_qs8")


@dataclass
class Lowered:
    """A group of cases after partitioning: nodes that stay with reasons, and results."""

    manager: EdgeProgramManager
    left: dict[str, list[tuple[str, str | None]]]
    results: dict[str, list[tuple[Tensor, Tensor]]]


@cache
def lowered(group: str) -> Lowered:
    names = cases.groups()[group]
    module, inputs, program = cases.group(names)
    manager = to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner()], compile_config=UNCHECKED
    )
    left: dict[str, list[tuple[str, str | None]]] = {name: [] for name in names}
    for node in manager.exported_program().graph.nodes:
        if op_key(node.target):
            left[cases.case_of(node, names)].append((op_key(node.target), reason_of(node)))
    found = iter(pytree.tree_leaves(manager.to_executorch().run(*inputs)))
    with torch.no_grad():
        wanted = module(*inputs)
    results = {
        name: [(next(found), leaf) for leaf in pytree.tree_leaves(result)]
        for name, result in zip(names, wanted, strict=True)
    }
    return Lowered(manager, left, results)


ROWS = [(group, name) for group, names in cases.groups().items() for name in names]


@pytest.mark.parametrize(("group", "name"), ROWS, ids=[name for _, name in ROWS])
def test_at_least_upstreams_nodes_are_delegated(group: str, name: str) -> None:
    stays = [(op, why) for op, why in lowered(group).left[name] if not op.startswith("aten::sym_")]
    assert all(why for _, why in stays), stays
    worse = [row for row in stays if not any(text in str(row[1]) for text in BETTER_OUTSIDE)]
    assert len(worse) <= sum(UPSTREAM[name][1].values()), (stays, UPSTREAM[name])


@pytest.mark.parametrize(("group", "name"), ROWS, ids=[name for _, name in ROWS])
def test_delegated_nodes_give_eagers_numbers(group: str, name: str) -> None:
    for found, wanted in lowered(group).results[name]:
        tolerance = DELEGATED.get(wanted.dtype, EXACT)
        if any(word in name for word in ROUGH):
            tolerance = DELEGATED_QUANTIZED
        assert_near(found, wanted.contiguous(), tolerance)


@pytest.mark.parametrize("group", cases.groups())
def test_what_nothing_divides_is_one_delegate(group: str) -> None:
    assert len(lowered(group).manager.delegation_summary().delegates) == 1


REASONS = {
    "add_bf16": "is bfloat16, not float32 or float16",
    "empty": "has no elements",
    "rank_7": "has 7 dimensions, more than 6",
    "max_pool_stride": "stride 3 is larger than the kernel 2",
    "max_pool_indices": "its result 1 is read, which XNNPACK does not compute",
    "avg_pool_ceil": "it has ceil_mode",
    "avg_pool_padded": "its padding [1, 1] counts in the average (count_include_pad)",
    "avg_pool_divisor": "it divides by 2, not by the size of its window",
    "conv_3d": "it convolves over 3 dimensions, not 1 or 2",
    "conv_given_weights": "its weights are computed at run time",
    "cat": "it moves elements, and no delegated node beside it computes",
    "unsqueeze": "a reshape at the edge of a delegate costs nothing outside",
    "cumsum": "no XNNPACK form written",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_stays_has_a_reason_in_words(name: str) -> None:
    [(_, why), *_] = lowered("static").left[name]
    assert why is not None and REASONS[name] in why


def test_every_rule_has_a_visitor() -> None:
    assert set(support.RULES) <= support.serializable()
    assert support.serializable() >= support.COMPANIONS


def test_an_operator_without_a_visitor_stays() -> None:
    program = to_edge(export(cases.Of(torch.exp), (torch.rand(3),))).exported_program()
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    facts = support.GraphFacts({})[node]
    assert support.reason(facts) is None
    assert support.reason(facts, forms=frozenset()) == "no XNNPACK form written"


def test_facts_of_a_node_are_found_once() -> None:
    program = to_edge(export(cases.Of(torch.exp), (torch.rand(3),))).exported_program()
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    facts = support.GraphFacts({})
    assert facts[node] is facts[node] and facts[node].operands is facts[node].operands


# ---- options


def summary(names: list[str], *partitioners: Any) -> DelegationSummary:
    return edge_of(names, *partitioners).delegation_summary()


def edge_of(names: list[str], *partitioners: Any) -> EdgeProgramManager:
    program = cases.group(names)[2]
    return to_edge_transform_and_lower(
        program, partitioner=list(partitioners), compile_config=UNCHECKED
    )


def delegated(found: DelegationSummary) -> Counter[str]:
    return Counter(record.operator for record in found.records if record.delegate is not None)


MIXED = ["linear", "linear_dynamic_int8", "linear_per_channel"]
FP32, STATIC = ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT


@pytest.mark.parametrize(
    ("make", "linears", "exps"),
    [
        (XnnpackPartitioner, 3, 1),
        (XnnpackFloatingPointPartitioner, 3, 1),
        (XnnpackQuantizedPartitioner, 3, 0),
        (XnnpackDynamicallyQuantizedPartitioner, 3, 0),
        (lambda: XnnpackPartitioner(config_precisions=FP32), 3, 1),
        (lambda: XnnpackPartitioner(config_precisions=[FP32, STATIC]), 3, 1),
        (lambda: XnnpackPartitioner(config_precisions=[]), 3, 1),
    ],
)
def test_operators_are_chosen_by_the_kinds_of_arithmetic_they_have(
    make: Callable[[], Any], linears: int, exps: int
) -> None:
    found = summary([*MIXED, "exp"], make())
    assert (delegated(found)["aten::linear"], delegated(found)["aten::exp"]) == (linears, exps)
    assert all(record.reason for record in found.records if record.delegate is None)


def test_integers_that_were_moved_are_still_integers() -> None:
    module, x = Padded(order=(0, 3, 1, 2)).eval(), torch.randn(1, 6, 6, 3)
    partitioner = XnnpackQuantizedPartitioner()
    edge = to_edge_transform_and_lower(export(module, (x,)), partitioner=[partitioner])
    assert edge.delegation_summary().delegated_share == 1.0
    assert_near(edge.to_executorch().run(x), module(x), EXACT)


def test_a_precision_is_given_once() -> None:
    with pytest.raises(ValueError, match="DYNAMIC_QUANT by definition"):
        XnnpackDynamicallyQuantizedPartitioner(config_precisions=ConfigPrecisionType.FP32)


def test_two_partitioners_in_turn_take_what_each_is_for() -> None:
    found = summary(
        ["gated_dynamic_int8", "linear"],
        XnnpackDynamicallyQuantizedPartitioner(),
        XnnpackPartitioner(),
    )
    assert all(record.delegate is not None for record in found.records)
    by_delegate = {
        d.name: {r.operator for r in found.records if r.delegate == d.name} for d in found.delegates
    }
    assert any("quantized_decomposed::choose_qparams.tensor" in ops for ops in by_delegate.values())
    assert not any(
        {"aten::sigmoid", "quantized_decomposed::choose_qparams.tensor"} <= ops
        for ops in by_delegate.values()
    )


@pytest.mark.parametrize(
    "second",
    [
        lambda: XnnpackPartitioner(configs=[LinearConfig]),
        lambda: XnnpackPartitioner(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT),
    ],
    ids=["configs", "precisions"],
)
def test_options_of_a_second_partitioner_do_not_replace_a_reason(
    second: Callable[[], Any],
) -> None:
    for partitioners in ([XnnpackPartitioner(), second()], [second(), XnnpackPartitioner()]):
        [record] = summary(["cat"], *partitioners).records
        assert record.reason is not None and REASONS["cat"] in record.reason


def test_operators_are_chosen_by_their_configs() -> None:
    found = summary(["conv_block", "add"], XnnpackPartitioner(configs=[LinearConfig, AddConfig]))
    assert delegated(found) == {"aten::linear": 1, "aten::add.Tensor": 1}
    left = {r.reason for r in found.records if r.delegate is None}
    assert "the partitioner's configs do not include its operator" in left
    with pytest.raises(
        RuntimeError, match="one config per target_name, got AddConfig and AddConfig"
    ):
        XnnpackPartitioner(configs=[AddConfig, AddConfig])


@dataclass
class Counted:
    """The delegated nodes of two linear layers with an activation between them."""

    linears: int
    activations: int
    delegates: int
    inputs: int


class OnlyWide(LinearConfig):  # type: ignore[misc, valid-type]
    def check_constraints(self, node: Any, ep: Any) -> bool:
        return bool(super().check_constraints(node, ep)) and node.meta["val"].shape[-1] == 16


@pytest.mark.parametrize(
    ("quantize", "options", "counted"),
    [
        ("", {}, Counted(2, 1, 1, 1)),
        ("", {"configs": []}, Counted(2, 1, 1, 1)),
        ("", {"configs": [LinearConfig]}, Counted(2, 1, 1, 1)),
        ("", {"configs": [ReLUConfig]}, Counted(0, 1, 1, 1)),
        ("", {"configs": [AddConfig]}, Counted(0, 0, 0, 0)),
        ("", {"configs": [OnlyWide]}, Counted(1, 1, 1, 1)),
        ("", {"per_op_mode": True}, Counted(2, 1, 2, 2)),
        ("", {"force_non_static_weights_for_f32_linear": True}, Counted(2, 1, 1, 5)),
        ("per_channel", {"configs": [LinearConfig]}, Counted(2, 1, 1, 1)),
        ("per_channel", {"force_non_static_weights_for_f32_linear": True}, Counted(2, 1, 1, 1)),
        ("dynamic", {"per_op_mode": True}, Counted(2, 1, 3, 3)),
        ("dynamic", {"config_precisions": STATIC}, Counted(2, 1, 1, 1)),
    ],
)
def test_options_mean_what_they_mean_upstream(
    quantize: str, options: dict[str, Any], counted: Counted
) -> None:
    torch.manual_seed(0)
    module, x = (
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(),
        torch.rand(3, 8),
    )
    if quantize:
        module = cases._quantized(module, (x,), quantize)
    edge = to_edge_transform_and_lower(
        export(module, (x,)), partitioner=[XnnpackPartitioner(**options)]
    )
    found = edge.delegation_summary()
    calls = [n for n in edge.exported_program().graph.nodes if "call_delegate" in str(n.target)]
    inputs = sum(len(call.args) - 1 for call in calls)
    names = delegated(found)
    assert counted == Counted(
        names["aten::linear"], names["aten::relu"], len(found.delegates), inputs
    )
    assert_near(edge.to_executorch().run(x), module(x), SMALL_LAYER_STEPS)


def test_configs_ask_the_facts_that_the_partitioner_makes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records: list[support.GraphFacts] = []

    def made(*args: Any) -> support.GraphFacts:
        records.append(support.GraphFacts(*args))
        return records[-1]

    for module in (xnnpack_config, xnnpack_partitioner):
        monkeypatch.setattr(module, "GraphFacts", made)
    counts = []
    for layers in (1, 8):
        records.clear()
        model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(layers)))
        program = export(model, (torch.rand(3, 16),))
        edge = to_edge_transform_and_lower(
            program, partitioner=[XnnpackPartitioner(configs=[OnlyWide])]
        )
        assert delegated(edge.delegation_summary()) == {"aten::linear": layers}
        counts.append(len(records))
    assert counts[0] == counts[1] > 0


def test_every_operator_can_have_a_delegate_of_its_own() -> None:
    found = summary(["conv_block"], XnnpackPartitioner(per_op_mode=True))
    assert len(found.records) == 8 and len(found.delegates) == 7
    by_delegate: dict[str | None, list[str]] = {}
    for record in found.records:
        by_delegate.setdefault(record.delegate, []).append(record.operator)
    shared = [operators for operators in by_delegate.values() if len(operators) > 1]
    assert shared == [["aten::convolution", "aten::hardtanh"]]  # a product with its activation


def test_a_partitioner_after_decomposition_takes_decomposed_linears() -> None:
    manager = to_edge(export(nn.Linear(8, 4), (torch.rand(2, 8),))).to_backend(XnnpackPartitioner())
    assert delegated(manager.delegation_summary()) == {"aten::addmm": 1}


def _quantized(x: Tensor) -> Tensor:
    result: Tensor = torch.ops.quantized_decomposed.quantize_per_tensor(x, *INT8)
    return result


def _dequantized(x: Tensor) -> Tensor:
    result: Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor(x, *INT8)
    return result


INT8 = (1 / 64, 3, -128, 127, torch.int8)
FLOATS, INTEGERS = torch.linspace(-1, 1, 24).reshape(2, 3, 4), torch.arange(24).to(torch.int8)
MOVES: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "cat": (lambda x: torch.cat([x, x], 1), FLOATS),
    "slice": (lambda x: x[:, 1:], FLOATS),
    "clone": (torch.clone, FLOATS),
    "view": (lambda x: x.view(6, 4), FLOATS),
    "quantize": (_quantized, FLOATS),
    "dequantize": (_dequantized, INTEGERS),
    "dequantize_two": (lambda x: (_dequantized(x), torch.cumsum(_dequantized(x), 0)), INTEGERS),
    "both": (lambda x: _dequantized(_quantized(x)), FLOATS),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_only_moves_elements_is_taken_if_asked(name: str) -> None:
    register_quantized_ops()
    function, x = MOVES[name]
    module = cases.Of(function)
    for moves in (False, True):
        edge = to_edge_transform_and_lower(
            export(module, (x,)), partitioner=[XnnpackPartitioner(delegate_moves=moves)]
        )
        records = edge.delegation_summary().records
        left = [r.operator for r in records if r.delegate is None and "cumsum" not in r.operator]
        assert bool(left) is not moves and bool(edge.delegation_summary().delegates) is moves
        found = edge.to_executorch().run(x)
        assert_near(found, module(x), EXACT)


def test_verbose_prints_what_stays(capsys: pytest.CaptureFixture[str]) -> None:
    summary(["max_pool_stride"], XnnpackPartitioner(verbose=True))
    assert "is left: stride 3 is larger than the kernel 2" in capsys.readouterr().out


# ---- regions


class Divided(nn.Module):
    """Two linear layers with one weight and an operator between them that stays."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        first: Tensor = self.linear(x)
        return torch.cumsum(first, 0) + self.linear(torch.cumsum(first, 1))


def run_and_compare(module: nn.Module, *inputs: Tensor) -> EdgeProgramManager:
    manager = to_edge_transform_and_lower(
        export(module, inputs), partitioner=[XnnpackPartitioner()]
    )
    torch.testing.assert_close(manager.to_executorch().run(*inputs), module(*inputs))
    return manager


def test_regions_have_no_dependency_cycle_and_share_weights() -> None:
    manager = run_and_compare(Divided().eval(), torch.rand(3, 8))
    modules = get_lowered_backend_modules(manager.exported_program().graph_module)
    assert len(modules) == 2
    stored = manager._named_data_store.get_named_data_store_output()
    assert len(stored.pte_data) == 2  # one weight, one bias


class SmallBetween(nn.Module):
    """Regions of few and of many elements between operators that stay."""

    def forward(self, x: Tensor) -> Tensor:
        little = torch.cumsum(torch.cumsum(x[0, :4], 0) * 2, 0)
        result: Tensor = torch.softmax(torch.cumsum(x, 1), 1) + little.sum()
        return result


@pytest.mark.parametrize(("leave", "delegates"), [(False, 2), (True, 1)])
def test_regions_that_cost_more_than_they_save_are_left_when_asked(
    leave: bool, delegates: int
) -> None:
    edge = to_edge_transform_and_lower(
        export(SmallBetween(), (torch.rand(8, 64),)),
        partitioner=[XnnpackPartitioner(leave_small_regions=leave)],
    )
    found = edge.delegation_summary()
    assert len(found.delegates) == delegates, str(found)
    assert ("takes less time than calling a delegate" in str(found)) == leave


class QuantizedBetween(nn.Module):
    """A quantized value with readers in two regions, one of which depends on the other."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        first: Tensor = self.a(x)
        return self.b(x) * torch.cumsum(first, 0)


def test_conversions_are_copied_to_each_region_that_reads_them() -> None:
    module = cases._quantized(QuantizedBetween().eval(), (torch.rand(3, 8),), "per_channel")
    inputs = (torch.rand(3, 8),)
    manager = to_edge_transform_and_lower(
        export(module, inputs), partitioner=[XnnpackPartitioner()]
    )
    assert_near(manager.to_executorch().run(*inputs), module(*inputs), LAYERS_STEPS)
    left = [r.operator for r in manager.delegation_summary().records if r.delegate is None]
    assert left == ["aten::cumsum"]


def test_masks_of_bools_become_numbers_once() -> None:
    def attention(q: Tensor, mask: Tensor) -> Tensor:
        for _ in range(3):
            q = nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return q

    q, mask = torch.rand(1, 2, 4, 8), torch.tensor([[[[True, True, False, True]]]])
    manager = run_and_compare(cases.Of(attention), q, mask)
    left = [r.operator for r in manager.delegation_summary().records if r.delegate is None]
    assert left == ["aten::where.self"]


def test_masks_made_of_constants_in_integers_are_made_at_export() -> None:
    """An attention mask of shifted windows, made of constants: unequal labels are masked."""

    def shifted(x: Tensor) -> Tensor:
        windows = rounded(x.new_zeros(6).masked_fill(torch.arange(6) > 3, 2.0), 1 / 64, -128)
        apart = rounded(windows.unsqueeze(0) - windows.unsqueeze(1), 1 / 64, 0)
        mask = rounded(apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0), 0.4, 127)
        return rounded(rounded(x, 0.4, 0) + mask, 0.4, 64)

    manager = run_and_compare(cases.Of(shifted), 40 * torch.rand(6, 6))
    found = manager.delegation_summary()
    assert len(found.delegates) == 1 and all(r.delegate is not None for r in found.records)
    counts = Counter(r.operator.split("::")[1] for r in found.records)
    assert counts == {"quantize_per_tensor": 2, "dequantize_per_tensor": 3, "add.Tensor": 1}


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_quantized_constants_join_floats(join: Callable[..., Tensor]) -> None:
    """A quantized constant concatenated with floats, like the class token of a transformer."""

    def joined(x: Tensor) -> Tensor:
        token = rounded(torch.linspace(-1.0, 1.0, 6).reshape(1, 6), 1 / 64, 0)
        return torch.softmax(join([token, torch.softmax(x, 1)]), -1)

    run_and_compare(cases.Of(joined), torch.rand(1, 6))


def test_slices_with_steps_become_parts_of_a_reshape() -> None:
    def corners(x: Tensor) -> Tensor:
        return torch.relu(x)[:, 0::2, 1::2] + torch.relu(x)[:, 1::2, 0::2]

    manager = run_and_compare(cases.Of(corners), torch.randn(2, 4, 6))
    assert all(r.delegate is not None for r in manager.delegation_summary().records)


def test_a_program_with_nothing_to_take_stays_as_it_is() -> None:
    manager = run_and_compare(cases.Of(lambda x: x.view(4, 6)), torch.rand(4, 2, 3))
    assert manager.delegation_summary().delegates == ()


class Attentive(nn.Module):
    """Attention whose reshapes compute with the number of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.look(x, x, x, need_weights=False)[0])


def test_sizes_of_tokens_are_those_of_their_embeddings_inside() -> None:
    """Embeddings of token ids, which are integers and stay outside; others have reasons."""
    torch.manual_seed(0)
    module, tokens = nn.Sequential(nn.Embedding(9, 16), Attentive()).eval(), torch.ones(1, 5).int()
    exported = export(module, (tokens,), dynamic_shapes=({1: torch.export.Dim("n", min=1, max=8)},))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    found = edge.delegation_summary()
    assert len(found.delegates) == 1, str(found)
    left = {r.operator: r.reason for r in found.records if r.delegate is None}
    assert left["aten::embedding"] == "no node of XNNPACK looks elements up by index"
    edge.to_executorch().verify(module, tokens[:, :3])


def test_arithmetic_on_sizes_goes_along() -> None:
    torch.manual_seed(0)
    module, x = Attentive().eval(), torch.rand(3, 5, 16)
    exported = export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=8)},))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert edge.delegation_summary().delegated_share == 1.0
    edge.to_executorch().verify(module, x)


def test_of_reshapes_with_two_sizes_found_at_run_time_those_that_change_nothing_go_along() -> None:
    """Attention with dynamic batch and length; operators that divide it have reasons."""
    torch.manual_seed(0)

    def look(x: Tensor) -> Tensor:
        heads = (x * 2).view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)
        found = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return found.view(x.shape[0], 2, x.shape[1], 8).transpose(1, 2).flatten(2) + x

    module, x = cases.Of(look), torch.rand(3, 5, 16)
    sizes = {d: torch.export.Dim(f"n{d}", min=1, max=8) for d in (0, 1)}
    exported = export(module, (x,), dynamic_shapes=((sizes,),))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    left = [r for r in edge.delegation_summary().records if r.delegate is None and r.reason]
    assert [r.operator for r in left] == ["aten::view_copy"] * 2
    assert all("2 sizes found at run time, and XNNPACK infers one" in r.reason for r in left)
    found = edge.to_executorch().run(x[:2, 1:])
    assert_near(found, module(x[:2, 1:]), F32_LAYERS)
