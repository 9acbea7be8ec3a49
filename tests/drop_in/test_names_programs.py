"""Names of upstream that check and store programs: the same script gives the same on both sides."""

from __future__ import annotations

import pytest
from support.same_script import SameScripts

_EDGE = """
import torch, warnings
from torch.export import Dim, export
from executorch.exir import EdgeCompileConfig, to_edge
warnings.simplefilter("ignore")

def edge(function, *inputs, **options):
    class Net(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(export(Net(), inputs, **options), compile_config=config).exported_program()
"""
SCRIPTS = SameScripts(
    {
        "dtypes": _EDGE
        + """
from executorch.exir.verification.arg_validator import (
    EdgeOpArgValidator, RunHigherOrderOperatorError)

def violations(ep, *inputs):
    validator = EdgeOpArgValidator(ep.graph_module)
    validator.run(*inputs)
    return [[op.name(), {k: str(v) for k, v in types.items()}, node.name]
            for op, (types, node) in validator.violating_ops.items()]

x, ints = torch.rand(2, 3), torch.ones(2, 3, dtype=torch.int32)
mul = edge(lambda x, y: (x * y).relu(), x, x)
cat = edge(lambda x, y: torch.cat([x, y]), x, x)
cond = edge(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, [x]), x)
try:
    EdgeOpArgValidator(cond.graph_module).run(x)
    error = None
except RunHigherOrderOperatorError as caught:
    error = type(caught).__mro__[1].__name__
try:
    EdgeOpArgValidator(mul.graph_module).run(x, torch.rand(4))
    other = None
except Exception as caught:
    other = type(caught).__name__
result = [violations(mul, x, x), violations(mul, ints, ints), violations(cat, x, x), error, other]
""",
        "bytes": _EDGE
        + """
from executorch.exir.serde.serialize import deserialize, serialize

x = torch.arange(6.0).reshape(2, 3)
first = edge(lambda x, y: (x @ y.t() + 1).relu().amax(0), x, x)
n = Dim("n", min=2, max=8)
sized = edge(lambda x: x.sin() * x.shape[0], x, dynamic_shapes=(({0: n},),))
aten = export(torch.nn.Linear(3, 2).eval(), (x,))
again = [deserialize(serialize(ep)) for ep in (first, sized, aten)]
result = [
    [[str(n.target) for n in ep.graph.nodes if n.op == "call_function"] ==
     [str(n.target) for n in back.graph.nodes if n.op == "call_function"]
     for ep, back in zip((first, sized, aten), again)],
    again[0].module()(x, x).tolist(), again[1].module()(torch.cat([x, x])).tolist(),
    torch.equal(again[2].module()(x), aten.module()(x)),
    isinstance(serialize(first).exported_program, bytes),
]
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)
