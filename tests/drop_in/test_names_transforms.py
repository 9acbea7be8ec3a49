"""Passes of upstream's `backends.transforms`: the same script gives the same on both sides."""

from __future__ import annotations

import pytest
from support.same_script import SameScripts

_EDGE = """
import torch, warnings
from torch.export import Dim, export
from executorch.exir import EdgeCompileConfig, to_edge
warnings.simplefilter("ignore")

def program(function, *inputs, **options):
    class Net(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(export(Net(), inputs), compile_config=EdgeCompileConfig(
        _check_ir_validity=False, **options)).exported_program()

def edge(function, *inputs, **options):
    return program(function, *inputs, **options).graph_module

def shown(result):
    gm = result.graph_module
    return [bool(result.modified), [n.target.__name__ for n in gm.graph.nodes if n.op ==
            "call_function"], [list(n.meta["val"].shape) for n in gm.graph.nodes
            if n.op == "call_function" and isinstance(n.meta["val"], torch.Tensor)]]

x = torch.arange(24.0).reshape(2, 3, 4) / 10
"""
SCRIPTS = SameScripts(
    {
        "views": _EDGE
        + """
from executorch.backends.transforms.collapse_view_copy import CollapseViewCopyPass
from executorch.backends.transforms.fuse_cascaded_view_ops import FuseCascadedViewOps
from executorch.backends.transforms.fuse_view_copy import FuseViewCopyTransform
from executorch.backends.transforms.rank_0_to_rank_1 import Rank0ToRank1Pass
from executorch.backends.transforms.view_copy_to_squeeze_unsqueeze import (
    ViewCopyToSqueezeUnsqueezePass)

functions = [
    lambda x: x.view(6, 4).view(24),
    lambda x: x.view(6, 4).view(2, 3, 4) + 1,
    lambda x: x.view(6, 4).view(3, 8).view(24).relu(),
    lambda x: x.view(6, 4).relu().view(24).neg().view(4, 6).cumsum(0),
    lambda x: (x.view(6, 4), x.view(6, 4).exp().view(24)),
    lambda x: x.relu(),
]
collapsed = [shown(CollapseViewCopyPass()(edge(f, x))) for f in functions]
fused = [shown(FuseViewCopyTransform()(edge(f, x))) for f in functions]
cascaded = [shown(FuseCascadedViewOps()(edge(f, x)))[1:] for f in functions[:2]]
y = torch.rand(2, 1, 3, 1, 4)
steps = [(2, 3, 4), (2, 1, 3, 4), (2, 3, 1, 4), (2, 1, 3, 1, 4, 1), (1, 2, 1, 3, 1, 4),
         (2, 1, 3, 1, 1, 4), (6, 4), (24,)]
squeezed = [shown(ViewCopyToSqueezeUnsqueezePass()(edge(lambda v, s=s: v.view(s), y)))
            for s in steps]
last = shown(ViewCopyToSqueezeUnsqueezePass()(edge(lambda v: v.view(2, 3), x[:, :, :1])))
ranked = Rank0ToRank1Pass()(edge(lambda a: a + 1, torch.tensor(2.0))).graph_module
result = [*collapsed, *fused, *cascaded, *squeezed, last, [list(n.meta["val"].shape) for n in
          ranked.graph.nodes if n.op == "placeholder"]]
""",
        "operators": _EDGE
        + """
from executorch.backends.transforms.mean_to_sum_div import MeanToSumDiv
from executorch.backends.transforms.remove_clone_ops import RemoveCloneOpsTransform
from executorch.backends.transforms.remove_getitem_op import RemoveGetItemPass
from executorch.backends.transforms.replace_scalar_with_tensor import (
    ReplaceScalarWithTensorArgPass)

def values(result, *inputs):
    return [t.tolist() for t in result.graph_module(*inputs)]

means = MeanToSumDiv()(edge(lambda x: x.mean([1, 2]), x))
scalars = [edge(f, x) for f in (lambda x: torch.ops.aten.mul.Scalar(x, 3),
           lambda x: torch.ops.aten.add.Scalar(x, 2))]
numbers = [ReplaceScalarWithTensorArgPass()(gm) for gm in scalars]
copies = [
    lambda x: x.clone(), lambda x: x.relu().clone().neg(),
    lambda x: x.unsqueeze(0).clone(memory_format=torch.channels_last).relu(),
]
clones = [shown(RemoveCloneOpsTransform(preserve_input_output_copies=keep)(edge(f, x,
          _skip_dim_order=skip))) for f in copies for keep in (False, True) for skip in
          (False, True)]
pool = torch.nn.functional.max_pool2d
picture = torch.rand(1, 1, 4, 4)
items = [RemoveGetItemPass()(edge(f, picture)) for f in (lambda p: pool(p, 2),
         lambda p: p.max(3)[0])]
try:
    RemoveGetItemPass()(edge(lambda p: p.max(3)[1], picture))
    error = None
except Exception as caught:
    error = type(caught).__name__
both = shown(RemoveGetItemPass()(edge(lambda p: p.max(3), picture)))[1:]
result = [shown(means), values(means, x), [shown(n) for n in numbers], [values(n, x) for n in
          numbers], clones, [shown(i)[1:] for i in items],
          items[1].graph_module(picture)[0].shape == (1, 1, 4), error, both]
""",
        "batch norms": _EDGE
        + """
from executorch.backends.transforms.fuse_batch_norm_with_conv import FuseBatchNormWithConvPass

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
with torch.no_grad():
    net[1].running_mean.copy_(torch.tensor([0.5, -0.5]))
    net[1].running_var.copy_(torch.tensor([2.0, 0.5]))
picture = torch.linspace(-1, 1, 36).reshape(1, 1, 6, 6)
ep = to_edge(export(net, (picture,)), compile_config=EdgeCompileConfig(
    _check_ir_validity=False)).exported_program()
fused = FuseBatchNormWithConvPass(ep)(ep.graph_module)
gm = fused.graph_module
weights = [[round(float(v), 4) for v in p.flatten()] for name, p in sorted(
           gm.named_parameters())]
result = [shown(fused), weights, [n.op for n in gm.graph.nodes]]
""",
        "dtypes": _EDGE
        + """
from executorch.backends.transforms.convert_dtype_pass import ConvertDtypePass, I64toI32

ints = torch.arange(6)
gm = I64toI32()(edge(lambda i: (i + i, torch.full([2], 3, dtype=torch.int64)), ints)).graph_module
halves = ConvertDtypePass(torch.float32, torch.float16, _skip_dim_order=True)(
    edge(lambda v: v.relu(), x)).graph_module
result = [[[n.target.__name__, str(n.meta["val"].dtype), sorted(k for k in n.kwargs)] for n in
           g.graph.nodes if n.op == "call_function"] for g in (gm, halves)]
""",
        "dialects": _EDGE
        + """
from executorch.backends.transforms.aten_to_dialect_pass import AtenToDialectPass, DialectNodeSpec
from executorch.exir.dialects._ops import ops

class Mine(AtenToDialectPass):
    pass

class Other(AtenToDialectPass):
    pass

@Mine.register_dialect_substitution(ops.edge.aten.relu.default)
def relu(node, one):
    return DialectNodeSpec(ops.edge.aten.clamp.default, (node.args[0], 0.0, 6.0))

@Mine.register_dialect_substitution(ops.edge.aten.neg.default)
def neg(node, one):
    return None

try:
    Mine.register_dialect_substitution(ops.edge.aten.neg.default)(neg)
    error = None
except RuntimeError as caught:
    error = type(caught).__name__
f = lambda v: v.relu().neg()
result = [shown(cls(ep)(ep.graph_module)) for cls in (Mine, Other) for ep in [program(f, x)]]
result.append(error)
traced = program(f, x)
old = next(n for n in traced.graph.nodes if "relu" in n.name)
old.meta["stack_trace"] = "seen before"
made = next(n for n in Mine(traced)(traced.graph_module).graph_module.graph.nodes if "clamp" in
            n.name)
result.append(made.meta["stack_trace"].startswith("seen before\\n"))
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)
