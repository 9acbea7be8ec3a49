"""Names of upstream's exporter: the same script gives the same on both sides."""

from __future__ import annotations

import pytest
from support.same_script import SameScripts

_EXPORT = """
import torch, warnings
from torch.export import Dim, export
from executorch.exir import EdgeCompileConfig, to_edge
warnings.simplefilter("ignore")

def targets(gm):
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]

def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return [c.__name__ for c in type(error).__mro__]
"""
SCRIPTS = SameScripts(
    {
        "tensors": _EXPORT
        + """
from executorch.exir.schema import DeviceType, ScalarType
from executorch.exir.tensor import (
    AddressSpaceOverflowException, TensorSpec, calculate_aligned_num_bytes, check_spec,
    layout_enum, make_allocation_info, make_tensor_value, memory_format_enum, scalar_type_table)

def facts(tensor):
    info = tensor.allocation_info
    return [int(tensor.scalar_type), tensor.storage_offset, tensor.sizes, list(tensor.dim_order),
            tensor.requires_grad, tensor.layout, tensor.data_buffer_idx, info and
            [info.memory_id, info.memory_offset_low, info.memory_offset_high],
            int(tensor.shape_dynamism), tensor.extra_tensor_info and
            [int(tensor.extra_tensor_info.device_type), tensor.extra_tensor_info.device_index]]

x = torch.ones(2, 3, 4, 5, dtype=torch.float16).to(memory_format=torch.channels_last)
spec = TensorSpec.from_tensor(x)
there = TensorSpec(torch.int8, torch.Size([4]))
there.device, there.device_index = DeviceType.CUDA, 1
view = TensorSpec.from_tensor(x)
view.inplace_base = spec
is_base = view.storage_base is spec and view.inplace_base is spec
view.storage_base_offset = 4
result = [
    facts(make_tensor_value(3, None, spec)),
    facts(make_tensor_value(0, make_allocation_info(1, (5 << 32) + 7), there)),
    raised(make_allocation_info, 1, -1),
    raised(make_allocation_info, 1, 1 << 64)[0],
    raised(check_spec, x[0], spec), raised(check_spec, x.float(), spec),
    layout_enum(torch.strided), layout_enum(torch.sparse_coo), raised(layout_enum, "x")[0],
    memory_format_enum(torch.preserve_format), raised(memory_format_enum, 1),
    calculate_aligned_num_bytes(17, 16), int(scalar_type_table[torch.bfloat16]),
    int(scalar_type_table[torch.quint4x2]), is_base, raised(lambda: view.inplace_base),
]
""",
        "graphs": _EXPORT
        + """
from functorch.experimental.control_flow import map as map_
from executorch.exir.memory_planning import (
    AllocationSpec, SharedObject, get_cond_nodes, get_input_specs, get_map_nodes,
    get_return_specs, get_scan_nodes, get_while_nodes)
from executorch.exir.passes import SpecPropPass

class Branch(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, [x])

class Rows(torch.nn.Module):
    def forward(self, x):
        return map_(lambda row: row * 2, x)

class Chain(torch.nn.Module):
    def forward(self, x):
        return x.relu().sigmoid(), x

edge = [to_edge(export(m(), (torch.ones(3, 4),))).exported_program().graph_module
        for m in (Branch, Rows, Chain)]
counts = [[len(list(f(gm))) for f in (get_cond_nodes, get_while_nodes, get_map_nodes,
           get_scan_nodes)] for gm in edge]
gm = SpecPropPass()(edge[2]).graph_module
inputs, outputs = get_input_specs(gm), get_return_specs(gm)
relu = next(n.meta["spec"] for n in gm.graph.nodes if "relu" in str(n.target))
shared = SharedObject(0, 16, 32, 1, 2)
shared.allocations.append(AllocationSpec(0, relu))
result = [counts, len(inputs), len(outputs), len(inputs & outputs), shared.idx,
          shared.offset, shared.size, shared.first_used_index, shared.last_used_index]
""",
        "banks": _EXPORT
        + """
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.banked_memory_planning import (
    Bank, BankedGreedy, TargetMemoryMap, banked_memory_planning_pass, planned_mem_ids)
from executorch.exir.memory_planning import pick_shared_obj
from executorch.exir.tensor import TensorSpec

def tensor(nbytes, first, last, mem_id=None):
    spec = TensorSpec(torch.uint8, [nbytes])
    spec.lifetime, spec.mem_id = [first, last], mem_id
    return spec

def tensors():
    sizes = [(899, 0), (534, 1), (1500, 2), (508, 3), (2000, 4), (64, 5), (640, 6)]
    return [tensor(size, first, first + 3, 1 if size == 64 else None) for size, first in sizes]

class Chain(torch.nn.Module):
    def forward(self, x):
        return (x + 1).relu().sigmoid() * x

target = TargetMemoryMap([Bank("sram", 2048, 2, 32), Bank("dram", 1 << 16, 1)])
graph = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
specs = tensors()
plan = BankedGreedy(target)(16, specs, graph, None, 64)
places = [(plan.spec_dict[s].mem_id, plan.spec_dict[s].mem_offset) for s in specs]
objects = []
for spec in (tensor(256, 6, 7), tensor(128, 0, 4), tensor(128, 1, 1), tensor(256, 2, 3)):
    pick_shared_obj(objects, spec)
config = ExecutorchBackendConfig(memory_planning_pass=banked_memory_planning_pass(target))
program = to_edge(export(Chain(), (torch.ones(200),))).to_executorch(config)
sizes = program.executorch_program.execution_plan[0].non_const_buffer_sizes
result = [
    plan.bufsizes, places, [len(o.allocations) for o in objects], len(sizes), sizes[2] <= 2048,
    set(planned_mem_ids(program.exported_program().graph_module)) <= {1, 2},
]
""",
        "passes": _EXPORT
        + """
from executorch.exir.dialects._ops import ops
from executorch.exir.passes import ConstPropPass as ByPackage
from executorch.exir.passes import ToDevicePass, propagate_dynamic_shape
from executorch.exir.passes.const_prop_pass import ConstPropPass
from executorch.exir.passes.fold_redundant_qdq_pass import FoldRedundantDequantizeQuantizePass
from executorch.exir.passes.normalize_transpose_pass import NormalizeTransposePass

class Full(torch.nn.Module):
    def forward(self, x):
        return x + torch.full([3], 2.0)

class Transposed(torch.nn.Module):
    def forward(self, x):
        return x.t() * 2

full = to_edge(export(Full(), (torch.ones(3),)))
folded = ConstPropPass()(full.exported_program().graph_module).graph_module
kept = ConstPropPass(propogate_quant=True)(full.exported_program().graph_module).graph_module
transposed = NormalizeTransposePass()(export(Transposed(), (torch.ones(2, 3),)).graph_module)
moved = ToDevicePass("meta")(export(Full(), (torch.ones(3),)).graph_module).graph_module
n = Dim("n", min=2, max=8)
program = to_edge(export(Transposed(), (torch.ones(2, 3),), dynamic_shapes=({1: n},)))
sized = program.transform(propagate_dynamic_shape()).exported_program().graph_module
specs = [list(n.meta["spec"].shape) for n in sized.graph.nodes if n.op == "call_function"]
result = [
    targets(folded), targets(kept), targets(transposed.graph_module), specs,
    folded(torch.ones(3))[0].tolist(), ByPackage is ConstPropPass,
    [str(n.kwargs["device"]) for n in moved.graph.nodes if "device" in n.kwargs],
    FoldRedundantDequantizeQuantizePass.__name__,
]
""",
        "hooks": _EXPORT
        + """
from executorch.exir.passes import MemoryFormatOpsPass, ScalarToTensorPass, SymToTensorPass
from executorch.exir.passes.legalize_portable_dim_order_pass import LegalizePortableDimOrderPass

class Doubled:
    def call_operator(self, op, args, kwargs, meta):
        name = str(op).replace(".default", "").split(".")[-1]
        if "relu" in str(op):
            args = (super().call_operator(torch.ops.aten.neg.default, args, {}, meta),)
        made = super().call_operator(op, args, kwargs, meta)
        self.seen.append(made.node.target.__name__.split(".")[0] if made.node.op ==
                         "call_function" else made.node.op)
        return made

def hooked(base):
    return type("Mine", (Doubled, base), {"seen": []})

class Net(torch.nn.Module):
    def forward(self, x):
        return x.relu().to(torch.float64).clone() + 1

class Sizes(torch.nn.Module):
    def forward(self, x):
        return x * x.shape[0]

class Mean(torch.nn.Module):
    def forward(self, x):
        return x.relu().mean(1)

x = torch.ones(2, 3, 4, 5)
aten = export(Net(), (x,)).run_decompositions({})
scalars = hooked(ScalarToTensorPass)()
scalars(aten.graph_module)
n = Dim("n", min=2, max=8)
dynamic = export(Sizes(), (x,), dynamic_shapes=({0: n},)).run_decompositions({})
symbols = hooked(SymToTensorPass)()
symbols(dynamic.graph_module)
config = EdgeCompileConfig(_skip_dim_order=True, _check_ir_validity=False)
edge = to_edge(export(Net(), (x,)), compile_config=config)
formats = hooked(MemoryFormatOpsPass)()
formats(edge.exported_program().graph_module)
last = to_edge(export(Mean(), (x.to(memory_format=torch.channels_last),)))
legal = hooked(LegalizePortableDimOrderPass)()
legal(last.exported_program().graph_module)
result = [scalars.seen, symbols.seen, formats.seen, legal.seen]
""",
        "devices": _EXPORT
        + """
from executorch.exir.passes.propagate_device_pass import (
    TARGET_DEVICE_COMPILE_SPEC_KEY, PropagateDeviceConfig)
import executorch.exir.passes._device_copy_ops_registry
x, out = torch.arange(3.0), torch.empty(3)
copy = torch.ops.et_copy._h2d_copy(x)
torch.ops.et_copy._d2h_copy.out(x, out=out)
config = PropagateDeviceConfig(skip_h2d_for_method_inputs={"forward": True})
result = [TARGET_DEVICE_COMPILE_SPEC_KEY, copy.tolist(), copy.data_ptr() == x.data_ptr(),
          out.tolist(), str(torch.ops.et_copy._h2d_copy.out._schema),
          config == PropagateDeviceConfig(), config.skip_d2h_for_method_outputs]
""",
        "trees": """
from executorch.extension.pytree import TreeSpec, from_str, tree_flatten, tree_unflatten
leaves, spec = tree_flatten((1, {"a": [2, 3]}))
text = spec.to_str()
result = [text, from_str(text) == spec, tree_unflatten(leaves, from_str(text))[1],
          isinstance(spec, TreeSpec)]
""",
        "quantized inputs": _EXPORT
        + """
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer, get_symmetric_quantization_config)
from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs

x = torch.linspace(-1, 1, 8).reshape(1, 8)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval()
quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
prepared = prepare_pt2e(export(model, (x,)).module(), quantizer)
prepared(x)
program = export(convert_pt2e(prepared), (x,))
edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
gm = edge.exported_program().graph_module
before = len(targets(gm))
inputs, outputs = QuantizeInputs(edge, [0]), QuantizeOutputs(edge, [0])
results = [inputs.call(gm).modified, outputs.call(gm).graph_module is gm]
edge._config_methods = {}
inputs.edge_manager_update_quant_config_methods_all()
outputs.edge_manager_update_quant_config_method(3, outputs.dequant_args[0])
result = [results, before - len(targets(gm)), {k: float(v) for k, v in
          sorted(edge._config_methods.items())}]
""",
        "settings": _EXPORT
        + """
import dataclasses
from executorch.exir import CallSpec, ExecutorchBackendConfig, edge_to_executorch_passes
from executorch.exir.schema import AllocationDetails, Tensor

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1

passes = edge_to_executorch_passes(ExecutorchBackendConfig(), "forward",
                                   edge_compile_config=EdgeCompileConfig(_skip_dim_order=True))
program = to_edge(export(Net(), (torch.ones(3),))).to_executorch().executorch_program
program.version = 7
program.execution_plan[0].name = "other"
place = AllocationDetails(1, 2, 3)
place.memory_id = 5
result = [len(passes) > 3, program.version, program.execution_plan[0].name, place.memory_id,
          CallSpec(1, 2).out_spec, CallSpec._fields]
""",
        "quantizer": """
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer
import torch
supported = XNNPACKQuantizer.get_supported_operators()
patterns = {p.name: p.is_dynamic for p in XNNPACKQuantizer.SUPPORTED_PATTERNS}
linear = [p for p in XNNPACKQuantizer.SUPPORTED_PATTERNS if p.name == "linear"]
result = [len({(c.config.is_qat, str(c.config.weight.qscheme)) for c in supported}),
          patterns["linear"], torch.ops.aten.linear.default in linear[0].op_overloads,
          linear[0].is_qat, "mul" in patterns]
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)
