"""Names that passes of users' backends import: the same script gives the same on both sides."""

from __future__ import annotations

import importlib

import pytest
import torch
from support.same_script import SameScripts

_PROGRAM = """
import torch, warnings
from torch.export import export
from executorch.exir import EdgeCompileConfig, to_edge
warnings.simplefilter("ignore")

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.full((4,), 2.0))
        self.register_buffer("loose", torch.full((4,), 3.0), persistent=False)

    def forward(self, x):
        return x * self.weight + self.shift + self.loose

def program():
    return to_edge(export(Net().eval(), (torch.ones(4),))).exported_program()

def node_of(ep, name):
    return next(n for n in ep.graph.nodes if n.name == name)

def inputs(ep):
    return [[s.kind.name, s.arg.name, s.target, s.persistent] for s in
            ep.graph_signature.input_specs]

def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return type(error).__name__
"""
SCRIPTS = SameScripts(
    {
        "constants": _PROGRAM
        + """
from torch.export.graph_signature import InputKind
from executorch.backends.transforms.utils import (
    create_constant_placeholder, create_mutable_buffer, delete_constant_placeholder,
    get_param_tensor, is_param_node, set_param_tensor)
from executorch.backends.xnnpack.utils.utils import get_tensor_name

ep = program()
nodes = [n for n in ep.graph.nodes]
facts = [[n.name, bool(is_param_node(ep, n)), get_param_tensor(ep, n).tolist(),
          get_tensor_name(ep, n)] for n in nodes if is_param_node(ep, n)]
other = raised(get_param_tensor, ep, node_of(ep, "x"))
for name in ("p_weight", "b_shift", "b_loose"):
    set_param_tensor(ep, node_of(ep, name), torch.zeros(4))
set_values = [get_param_tensor(ep, node_of(ep, n)).tolist() for n in ("p_weight", "b_loose")]
first = next(iter(ep.graph.nodes))
made = []
for kind, persistent in ((InputKind.PARAMETER, None), (InputKind.BUFFER, True),
                         (InputKind.BUFFER, False), (InputKind.CONSTANT_TENSOR, None)):
    with ep.graph.inserting_before(first):
        made.append(create_constant_placeholder(ep, ep.graph, f"new_{kind.name.lower()}_"
                    f"{persistent}", kind, torch.ones(2), persistent))
with ep.graph.inserting_before(first):
    again = create_constant_placeholder(ep, ep.graph, "new_parameter_None", InputKind.PARAMETER,
                                        torch.ones(2))
after = inputs(ep)
late = program()
with late.graph.inserting_after(node_of(late, "x")):
    refused = raised(create_constant_placeholder, late, late.graph, "z", InputKind.PARAMETER,
                     torch.ones(1))
used = raised(delete_constant_placeholder, ep, node_of(ep, "p_weight"))
for node in made:
    delete_constant_placeholder(ep, node)
state = program()
buffer = create_mutable_buffer(state, "b_state", torch.zeros(3))
taken = program()
renamed = [create_mutable_buffer(taken, n, torch.zeros(3)).name for n in ("x", "0_cache")]
outputs = [[s.kind.name, s.arg.name, s.target] for s in state.graph_signature.output_specs]
results = [n.name for n in state.graph.output_node().args[0]]
result = [facts, other, set_values, again is made[0], after, refused, used, inputs(ep),
          sorted(ep.state_dict), sorted(ep.constants), inputs(state), outputs, results,
          renamed, inputs(taken), sorted(taken.state_dict),
          sorted(state.state_dict), list(buffer.meta["val"].shape),
          raised(create_mutable_buffer, state, "", torch.zeros(1)),
          raised(create_mutable_buffer, state, "b_state", torch.zeros(1))]
""",
        "quantized nodes": _PROGRAM
        + """
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer, get_symmetric_quantization_config)
from executorch.backends.xnnpack.utils import quant_utils as u

asked = (u.is_quant, u.is_dequant, u.is_qparam, u.is_dynamic_qdq, u.is_per_channel,
         u.is_per_tensor, u.is_affine_qdq, u.is_per_token, u.is_per_channel_group)

def facts(dynamic):
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval(), torch.ones(2, 8)
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(export(model, (x,)).module(), XNNPACKQuantizer().set_global(config))
    prepared(x)
    config = EdgeCompileConfig(_check_ir_validity=False)
    ep = to_edge(export(convert_pt2e(prepared), (x,)), compile_config=config).exported_program()
    return sorted([n.target.__name__, [bool(f(n)) for f in asked]] for n in ep.graph.nodes
                  if n.op == "call_function" and "quant" in n.target.__name__ or
                  "qparams" in str(n.target))

tag = program().graph.find_nodes(op="placeholder")[0]
before = u.is_tagged_as_implicit_q_dq(tag)
u.tag_as_implicit_q_dq(tag)
tiny = float(torch.finfo(torch.float32).smallest_normal)
result = [
    facts(False), facts(True), before, u.is_tagged_as_implicit_q_dq(tag),
    [raised(u.validate_quant_scales, s) for s in (0.5, float("inf"), float("nan"), tiny / 2,
     torch.tensor([1.0, 0.0]), torch.tensor([1.0, 2.0]))],
    [raised(u.validate_quant_zeropoints, *a) for a in ((0, torch.int8, False),
     (128, torch.int8, False), (15, torch.int8, True), (-1, torch.int8, True),
     (255, torch.uint8, False), (-1, torch.uint8, False), (1, torch.int32, False),
     (0, torch.int32, False), (0, torch.float32, False))],
]
""",
        "arguments": _PROGRAM
        + """
from executorch.backends.xnnpack.utils import utils as u
from executorch.backends.xnnpack.utils import xnnpack_constants as constants

class Pools(torch.nn.Module):
    def forward(self, x):
        f = torch.nn.functional
        return (f.avg_pool2d(x, 2).relu(), f.avg_pool2d(x, (2, 3), stride=(1, 2), padding=1),
                f.max_pool2d(x, 3, dilation=2), x.max(1))

class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Conv2d(4, 8, 3, groups=2)
        self.back = torch.nn.ConvTranspose2d(8, 4, 3, groups=4)

    def forward(self, x):
        return self.back(self.one(x))

trained = export(Convolutions(), (torch.ones(1, 4, 9, 9),)).graph
groups = [u.get_groups_from_conv(n) for n in trained.nodes if n.op == "call_function"]
ep = to_edge(export(Pools(), (torch.ones(1, 2, 9, 9),))).exported_program()
calls = [n for n in ep.graph.nodes if n.op == "call_function"]
pools = [[list(map(list, u.normalize_pool2d_args(n, "max" in n.name)))] for n in calls
         if "pool2d" in n.name]
relus = [n.name for n in calls if u.get_relu_fused_node(n) is not None]
result = [
    pools, relus, [u.is_getitem(n) for n in calls], u.is_node(calls[0]), u.is_node(3),
    u.normalize_mean_dims([-1, 0], 4), u.normalize_mean_dims(None, 2),
    u.normalize_mean_dims(1, 3), raised(u.normalize_mean_dims, [3], 3),
    raised(u.normalize_mean_dims, [0], 0), raised(u.check_or_raise, False, "x"),
    u.check_or_raise(True, "x"), u.PERM_NCHW_TO_NHWC, u.PERM_NHWC_TO_NCHW,
    [bool(u.is_depthwise_conv(*a)) for a in (((8, 1, 3, 3), 8), ((8, 2, 3, 3), 4),
     ((8, 1, 3, 3), 8, True), ((8, 2, 3, 3), 4, True), ((8,), 1), ((4, 1), 0))],
    u.get_input_node(calls[0], 0).name, groups, raised(u.get_groups_from_conv, calls[0]),
    sorted(n for n in vars(constants) if n.isupper()),
    [getattr(constants, n) for n in sorted(vars(constants)) if n.isupper()],
]
""",
        "schemas": """
import sys, torch
from executorch.exir.common import (
    extract_out_arguments, format_schema_name, get_schema_for_operators, no_dispatch,
    setting_python_recursive_limit)

one = torch._C.parse_schema("aten::absolute.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")
many = torch._C.parse_schema("aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, "
                             "Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!), Tensor(b!))")
before = sys.getrecursionlimit()
with setting_python_recursive_limit(before + 7), no_dispatch():
    inside = sys.getrecursionlimit()
result = [
    get_schema_for_operators(["torch.ops.aten.add.Tensor", "torch.ops.aten.relu.default",
                              "torch.ops.aten.no_such.default"]),
    list(extract_out_arguments(one, {"out": 1})), extract_out_arguments(many, {"max": 1,
    "max_values": 2}) == [("max", 1), ("max_values", 2)], format_schema_name(one),
    format_schema_name(torch.ops.aten.relu.default._schema), inside - before,
    sys.getrecursionlimit() - before,
]
""",
        "operators": """
import torch
import executorch.extension.llm.custom_ops.custom_ops

value, cache = torch.arange(8.0).reshape(1, 2, 2, 2), torch.zeros(1, 2, 4, 2)
update = torch.ops.executorch.update_cross_attn_cache
made = update(value, cache)

class Net(torch.nn.Module):
    def forward(self, value, cache):
        return torch.ops.executorch.update_cross_attn_cache(value, cache)

program = torch.export.export(Net(), (value, cache))
try:
    update(torch.zeros(1, 2, 5, 2), cache)
    error = None
except Exception as caught:
    error = "raised"
result = [made.tolist(), cache.tolist(), made.data_ptr() == cache.data_ptr(), error,
          [str(n.target) for n in program.graph.nodes if n.op == "call_function"],
          str(update.default._schema)]
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)


def test_importing_the_path_of_image_operators_registers_them() -> None:
    importlib.import_module("executorch_py.extension.llm.custom_ops.preprocess_custom_ops")
    image = torch.arange(48.0).reshape(3, 4, 4)
    tiles = torch.ops.preprocess.tile_crop(image, 2)
    expected = [image[:, y : y + 2, x : x + 2] for y in (0, 2) for x in (0, 2)]
    torch.testing.assert_close(tiles, torch.stack(expected))
