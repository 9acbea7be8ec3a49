"""Structures of calls in real models: nested arguments and results, numbers, state, aliases,
layouts, sizes that depend on data. Every case is exported, lowered, run on the C runtime from its
bytes at every corner of its dynamic sizes, and compared with eager torch in value and structure.

Relies on executorch_py.testing. Results of single operators are tested in tests/kernels.
"""

from __future__ import annotations

import collections
import io
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils import _pytree as pytree

from executorch_py.exir import to_edge
from executorch_py.exir.error import ExportError
from executorch_py.runtime import Runtime
from executorch_py.testing import verify_program


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(high)
    return torch.randint(low, high, shape, dtype=dtype, generator=generator)


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


class Named(nn.Module):
    def forward(self, pair: Pair) -> Pair:
        return Pair(pair.a + 1, pair.b * 2)


class Keywords(nn.Module):
    def forward(
        self, x: torch.Tensor, *, scale: float = 2.0, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        return x * scale + (0 if bias is None else bias)


class Defaults(nn.Module):
    def forward(
        self, x: torch.Tensor, y: torch.Tensor | None = None, n: int = 3, mode: str = "relu"
    ) -> torch.Tensor:
        z = x * n if y is None else x + y
        return torch.relu(z) if mode == "relu" else z


class ReturnsParameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(randn(3))
        self.register_buffer("table", randn(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.weight, self.table, x + self.weight


class NoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(randn(3))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.weight * 2, self.weight


class ChangesStateTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.state.add_(x)
        y = self.state * 2
        self.state.mul_(3)
        self.state[1] = 7.0
        return y + self.state, self.state


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((1,), 5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count += 1
        return x * self.count, self.count.clone()


class WritesParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(2)
        return x + self.weight


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight
        self.middle = nn.Linear(8, 8)
        self.again = self.middle

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.again(self.middle(self.embedding(tokens))))


def several_results(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    return y, y, y.view(2, 3), x, y


def first_rows(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 5)
    return x[:k] * 2, torch.zeros(k, 2), k


def window(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    k = start.item()
    torch._check(k >= 0)
    torch._check(k <= 3)
    return torch.narrow(x, 0, k, 2)


def masked_assignment(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[x > 0] = x[x > 0] * 2
    return y


def nested_condition(x: torch.Tensor) -> torch.Tensor:
    def positive(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x[0] > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    return torch.cond(x.sum() > 0, positive, lambda x: x + 3, (x,))


def loop_with_condition(x: torch.Tensor) -> Any:
    def body(i: torch.Tensor, x: torch.Tensor) -> Any:
        return i + 1, torch.cond(x.sum() > 1, lambda x: x - 1, lambda x: x + 2, (x,))

    return while_loop(lambda i, x: i < 4, body, (torch.tensor(0), x))


def exchange(a: torch.Tensor, b: torch.Tensor) -> Any:
    start = (torch.tensor(0), a, b)
    return while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b.clone(), a + b), start)


def two_carries(x: torch.Tensor, xs: torch.Tensor) -> Any:
    def step(carry: Any, item: Any) -> Any:
        return (carry[0] + item[0], carry[1] * item[1]), (carry[0] * 2, item[1] + 1)

    return scan(step, (x, x + 1), (xs, xs * 2))


class ConditionOnState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x, c: x + c, lambda x, c: x - c, (x, self.state))
        self.state.add_(1)
        return y + self.state


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, self.first.forward, self.second.forward, (x,))


@dataclass(frozen=True)
class Case:
    name: str
    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None

    def module(self) -> nn.Module:
        model = self.model if isinstance(self.model, nn.Module) else Function(self.model)
        return model.eval()


def dynamic(*shapes: Any) -> tuple[tuple[Any, ...]]:
    """dynamic_shapes of a Function, whose one parameter is *args."""
    return (shapes,)


BATCH = Dim("batch", min=1, max=8)
SAME = randn(3)
CHANNELS_LAST = randn(2, 3, 4, 5).to(memory_format=torch.channels_last)

RESULTS = [
    Case("a dict with nested lists", lambda x: {"z": x + 1, "a": (x * 2, [x - 1])}, (randn(3),)),
    Case("an ordered dict", lambda x: collections.OrderedDict(b=x + 1, a=x * 2), (randn(3),)),
    Case("None among results", lambda x: (x + 1, None, {"k": None}), (randn(3),)),
    Case("None alone", lambda x: None, (randn(3),)),
    Case("an empty tuple", lambda x: (), (randn(3),)),
    Case("a named tuple", Named(), (Pair(randn(2), randn(2)),)),
    Case("topk's named tuple", lambda x: torch.topk(x, 2), (randn(5),)),
    Case("max's named tuple", lambda x: torch.max(x, 1), (randn(3, 5),)),
    Case("results that share memory", several_results, (randn(6),)),
    Case("an input returned", lambda x: (x, x + 1, x), (randn(6),)),
    Case("a view of an input", lambda x: x.view(2, 3), (randn(6),)),
    Case("the input alone", lambda x: x, (randn(6),)),
    Case("a constant", lambda x: (torch.ones(3), x), (randn(3),)),
    Case("parameters and buffers", ReturnsParameters(), (randn(3),)),
    Case(
        "sizes",
        lambda x: (x + 1, x.shape[0], x.shape[0] * 2 + 1),
        (randn(3, 4),),
        dynamic_shapes=dynamic({0: BATCH}),
    ),
    Case("0-d tensors", lambda x: (x + 1, x.sum(), x.view(1)), (torch.tensor(2.0),)),
    Case("empty tensors", lambda x: (x + 1, x.sum(), torch.cat([x, x])), (torch.zeros(0, 3),)),
]

ARGUMENTS = [
    Case("a list", lambda xs: [x + 1 for x in xs], ([randn(2), randn(3)],)),
    Case("nested", lambda d, p: d["a"][0] + p[1]["b"], ({"a": [randn(3)]}, (1, {"b": randn(3)}))),
    Case("None", lambda x, y: x + 1 if y is None else x + y, (randn(3), None)),
    Case("a string", lambda x, s: (x + 1, s, "const"), (randn(3), "hello")),
    Case("numbers", lambda x, n, f, b: (x * n + f, n, f, b, n + 1), (randn(3), 3, 0.5, True)),
    Case("none at all", NoInputs(), ()),
    Case("unused", lambda x, y: x + 1, (randn(3), randn(4))),
    Case("the same twice", lambda x, y: x + y, (SAME, SAME)),
    Case("keywords", Keywords(), (randn(3),), {"scale": 3.0, "bias": randn(3)}),
    Case("a keyword left out", Keywords(), (randn(3),), {"bias": randn(3)}),
    Case("defaults", Defaults(), (randn(3),)),
    Case("a keyword for a default", Defaults(), (randn(3),), {"mode": "none"}),
    Case("transposed", lambda x: (x + 1, x.reshape(12)), (randn(4, 3).t(),)),
    Case("expanded", lambda x: x + 1, (randn(4, 1).expand(4, 3),)),
    Case("part of a larger tensor", lambda x: x.view(4, 3) + 1, (randn(8, 3)[4:],)),
    Case("channels last", lambda x: x.permute(0, 2, 3, 1).reshape(2, -1), (CHANNELS_LAST,)),
    Case(
        "channels last beside contiguous",
        lambda x, y: (x + y, torch.cat([x, y]), (x + y).sum(1)),
        (CHANNELS_LAST, randn(2, 3, 4, 5)),
    ),
    Case(
        "integers",
        lambda x, y: (x + y, x // y, x % y, x * 2.5, x == y),
        (integers(1, 9, 4, dtype=torch.int32), integers(1, 7, 4, dtype=torch.int32)),
    ),
    Case("bools", lambda x, y: (x & y, x | y, ~x, x.sum(), x.any()), (randn(4) > 0, SAME[:1] > 0)),
    Case("bytes", lambda x: (x + 1, x.float() / 255, x > 3), (integers(0, 255, 4).byte(),)),
]

STATE = [
    Case("written twice", ChangesStateTwice(), (randn(3),)),
    Case("an integer counter", Counts(), (randn(3),)),
    Case("a parameter", WritesParameter(), (randn(3),)),
    Case("tied weights and shared modules", Tied(), (integers(0, 20, 2, 3),)),
    Case("an input changed in place", lambda x, y: (x.mul_(2), y + x), (randn(4), randn(4))),
    Case("a view written", lambda x: (x.clone().fill_(5.0), x), (randn(4),)),
]

ROWS = Dim("rows", min=6, max=12)
ARITHMETIC: dict[str, Callable[[torch.Tensor], Any]] = {
    "halves and thirds": lambda x: (x[: x.shape[0] // 2], x.shape[0] / 3, x.shape[0] % 3, x + 1),
    "the floor": lambda x: (torch.zeros(math.floor(x.shape[0] / 3)) + x.sum(), x + 1),
    "the ceiling": lambda x: (torch.zeros(math.ceil(x.shape[0] / 4)) + x.sum(), x + 1),
    "the rounding": lambda x: (torch.zeros(round(x.shape[0] / 2)) + x.sum(), x + 1),
    "the square root": lambda x: (x / torch.sym_sqrt(x.shape[0]), x.shape[0] ** 0.5),
    "powers": lambda x: (x * x.shape[0] ** -0.5, x.shape[0] ** 3, torch.ones(x.shape[0] ** 2)),
    "bits": lambda x: (x.shape[0] & 3, x.shape[0] << 1, x.shape[0] >> 1, x + 1),
    "conditions": lambda x: (
        (x.shape[0] > 7) & (x.shape[0] < 11),
        (x.shape[0] > 11) | (x.shape[0] < 7),
        torch.sym_not(x.shape[0] > 9),
        x.shape[0] != 8,
        x + 1,
    ),
    "the smaller and the larger": lambda x: (
        torch.ones(torch.sym_min(x.shape[0], 9)),
        torch.ones(torch.sym_max(x.shape[0], 9)),
        torch.sym_ite(x.shape[0] > 8, 3, 4),
        x + 1,
    ),
    "sums": lambda x: (torch.sym_sum([x.shape[0], x.shape[1], 3]), 20 - x.shape[0], x + 1),
}

DYNAMIC = [
    Case(
        "a derived dimension",
        lambda x, y: (x.sum(1) + y[: x.shape[0]].sum(1), y * 2),
        (randn(3, 4), randn(6, 4)),
        dynamic_shapes=dynamic({0: BATCH}, {0: 2 * BATCH}),
    ),
    Case(
        "a dimension one larger",
        lambda x, y: x + y[1:],
        (randn(3, 4), randn(4, 4)),
        dynamic_shapes=dynamic({0: BATCH}, {0: BATCH + 1}),
    ),
    Case(
        "two dimensions",
        lambda x, w: torch.relu(x @ w),
        (randn(3, 4), randn(4, 5)),
        dynamic_shapes=dynamic({0: BATCH}, {1: Dim("width", min=2, max=7)}),
    ),
    Case(
        "both dimensions of one tensor",
        lambda x: x @ x.T,
        (randn(3, 4),),
        dynamic_shapes=dynamic({0: BATCH, 1: Dim("width", min=2, max=7)}),
    ),
    Case(
        "AUTO with bounds",
        lambda x: x * 2,
        (randn(3, 4),),
        dynamic_shapes=dynamic({0: Dim.AUTO(min=1, max=9)}),
    ),
    Case(
        "DYNAMIC with bounds",
        lambda x: x * 2,
        (randn(3, 4),),
        dynamic_shapes=dynamic({0: Dim.DYNAMIC(min=2, max=9)}),
    ),
    Case(
        "creation by size",
        lambda x: torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x + torch.arange(x.shape[1]),
        (randn(4, 2),),
        dynamic_shapes=dynamic({0: BATCH}),
    ),
    Case(
        "a size as a tensor",
        lambda x: torch.tensor([x.shape[0], 2]),
        (randn(4, 2),),
        dynamic_shapes=dynamic({0: BATCH}),
    ),
    *(
        Case(f"{name} of a size", function, (randn(6, 2),), dynamic_shapes=dynamic({0: ROWS}))
        for name, function in ARITHMETIC.items()
    ),
    Case(
        "a slice by size",
        lambda x: x[: min(x.shape[0], 3)],
        (randn(5, 2),),
        dynamic_shapes=dynamic({0: Dim("rows", min=4, max=8)}),
    ),
    Case(
        "the batch of an LSTM",
        Function(nn.LSTM(4, 6, batch_first=True)),
        (randn(3, 5, 4),),
        dynamic_shapes=dynamic({0: BATCH}),
    ),
]

BY_DATA = [
    Case("nonzero", torch.nonzero, (randn(3, 4).relu(),)),
    Case("the indices of where", lambda x: torch.where(x > 0), (randn(3, 4),)),
    Case("a mask", lambda x: x[x > 0] * 2, (randn(3, 4),)),
    Case("a mask that selects nothing", lambda x: x[x > 99] * 2, (randn(3, 4),)),
    Case("two masks joined", lambda x: torch.cat([x[x > 0], x[x < 0]]), (randn(3, 4),)),
    Case("rows into a product", lambda x: x[x[:, 0] > 0] @ x.t(), (randn(5, 4),)),
    Case("assignment by mask", masked_assignment, (randn(3, 4),)),
    Case("how many", lambda x: torch.nonzero(x).shape[0], (randn(3, 4).relu(),)),
    Case("item as a size", first_rows, (randn(5, 4), torch.tensor(3))),
    Case("item as a size of zero", first_rows, (randn(5, 4), torch.tensor(0))),
    Case("item as an offset", window, (randn(5, 4), torch.tensor(2))),
    Case("item as a factor", lambda x, n: x * n.item(), (randn(5), torch.tensor(3.5))),
    Case("a bool item", lambda x: (x > 0).all().item(), (randn(5),)),
]

CONTROL = [
    Case("conditions in conditions", nested_condition, (randn(3),)),
    Case("a condition on layers", TwoLayers(), (randn(2, 3),)),
    Case("a condition on state", ConditionOnState(), (randn(3),)),
    Case(
        "a condition on a size",
        lambda x: torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x - 1, (x,)),
        (randn(3, 2),),
        dynamic_shapes=dynamic({0: Dim("rows", min=2, max=8)}),
    ),
    Case(
        "map with several inputs and results",
        lambda xs, y: torch_map(lambda x, y: (x[0] * y + x[1], x[0].sum()), xs, y),
        ((randn(4, 3), randn(4, 3)), randn(3)),
    ),
    Case(
        "map in map",
        lambda xs: torch_map(lambda x: torch_map(lambda z: z * 2 + 1, x), xs),
        (randn(4, 3, 2),),
    ),
    Case(
        "map over any number",
        lambda xs: torch_map(lambda x: x.relu() * 2, xs),
        (randn(4, 3),),
        dynamic_shapes=dynamic({0: BATCH}),
    ),
    Case(
        "a loop as long as an input says",
        lambda x, n: while_loop(
            lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x)
        ),
        (randn(3), torch.tensor(4)),
    ),
    Case(
        "a loop that never runs",
        lambda x: while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)),
        (randn(3),),
    ),
    Case(
        "a loop that counts in Python ints",
        lambda x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (0, x)),
        (randn(3),),
    ),
    Case("a condition in a loop", loop_with_condition, (randn(3),)),
    Case("a loop that exchanges its values", exchange, (randn(3), randn(3) * 2)),
    Case("a scan with two carries", two_carries, (randn(3), randn(4, 3))),
    Case(
        "a scan of any length, backwards",
        lambda x, xs: scan(lambda c, x: (c + x, c * x), x, xs, reverse=True),
        (randn(3), randn(4, 3)),
        dynamic_shapes=dynamic(None, {0: Dim("steps", min=2, max=8)}),
    ),
]

GROUPS = {
    "results": RESULTS,
    "arguments": ARGUMENTS,
    "state": STATE,
    "dynamic": DYNAMIC,
    "by data": BY_DATA,
    "control flow": CONTROL,
}


def structure(value: Any) -> Any:
    """Nested containers of leaf types; named tuples, which files store as tuples, are tuples."""
    if isinstance(value, dict):
        return type(value), {key: structure(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        plain = list if isinstance(value, list) else tuple
        return plain, [structure(item) for item in value]
    return torch.Tensor if isinstance(value, torch.Tensor) else type(value)


def lower(case: Case, module: nn.Module) -> Any:
    with torch.no_grad():
        exported = torch.export.export(
            module, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes
        )
    return to_edge(exported).to_executorch()


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{group}: {case.name}") for group in GROUPS for case in GROUPS[group]],
)
def test_a_call_returns_what_eager_torch_returns(case: Case) -> None:
    module = case.module()
    program = lower(case, module)
    verify_program(program, module, *case.args, **case.kwargs)
    args, kwargs = pytree.tree_map(
        lambda v: v.clone() if isinstance(v, torch.Tensor) else v, (case.args, case.kwargs)
    )
    found = Runtime.get().load_program(program.buffer).run(*args, **kwargs)
    with torch.no_grad():
        expected = case.module()(*args, **kwargs)
    assert structure(found) == structure(expected)


def test_a_parameter_that_a_model_writes_to_is_state() -> None:
    program = lower(Case("", None, (randn(3),)), WritesParameter())
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    zeros = torch.zeros(3)
    assert [method(zeros).tolist() for _ in range(2)] == [[0.0, 2.0, 4.0], [0.0, 4.0, 8.0]]
    assert len(method.signature.outputs) == 1


def test_number_inputs_take_the_traced_value_only() -> None:
    case = Case("", lambda x, n: x * n, (randn(3), 2))
    program = Runtime.get().load_program(lower(case, case.module()).buffer)
    torch.testing.assert_close(program.run(randn(3), 2), randn(3) * 2)
    with pytest.raises(
        ValueError, match=r"input 1: expected the Int 2 that the program was exported with, got"
    ):
        program.run(randn(3), 3)


def test_arithmetic_on_sizes_that_no_runtime_has_is_refused() -> None:
    case = Case(
        "", lambda x: (x.shape[0] & 5, x), (randn(6, 2),), dynamic_shapes=dynamic({0: ROWS})
    )
    with pytest.raises(
        ExportError, match=r"computes and_.*which runtimes have operators for.*Write it"
    ):
        lower(case, case.module())


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("strict", [False, True])
def test_programs_are_the_same_however_autograd_was_set(context: Any, strict: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()
    x = randn(2, 4)
    with context():
        program = to_edge(torch.export.export(model, (x,), strict=strict)).to_executorch()
        verify_program(program, model, x)
    with torch.no_grad():
        plain = to_edge(torch.export.export(model, (x,))).to_executorch()
    names = [
        [op.name for op in p.executorch_program.execution_plan[0].operators]
        for p in (program, plain)
    ]
    assert names[0] == names[1]


def test_programs_saved_by_torch_lower_as_well() -> None:
    model, x = nn.Linear(4, 3), randn(2, 4)
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    file.seek(0)
    verify_program(to_edge(torch.export.load(file)).to_executorch(), model, x)


def test_two_processes_write_the_same_bytes() -> None:
    script = (
        "import hashlib, torch\n"
        "from executorch_py.exir import to_edge\n"
        "torch.manual_seed(0)\n"
        "class M(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Conv1d(1, 2, 3)\n"
        "    def forward(self, x, y):\n"
        "        z = self.b(self.a(x)[:, None])\n"
        "        return {'z': z, 'y': torch.cond(y, lambda z: z * 2, lambda z: z - 1, (z,))}\n"
        "inputs = (torch.randn(2, 4), torch.tensor(True))\n"
        "shapes = ({0: torch.export.Dim('n', min=1, max=5)}, None)\n"
        "exported = torch.export.export(M(), inputs, dynamic_shapes=shapes)\n"
        "print(hashlib.sha256(to_edge(exported).to_executorch().buffer).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()[-1]
        for seed in ("1", "2")
    }
    assert len(digests) == 1
