"""Exports for the kernels: element types, dynamic sizes, settings, state, control flow, families.

See recorded_exports.py, which runs them.
"""

from __future__ import annotations

import importlib
import io
from dataclasses import fields
from typing import Any

import recorded_functions as functions
import torch
from recorded_exports import Made, case, delegated, exported, portable, several
from recorded_models import (
    Caches,
    Counter,
    Decoder,
    Encoder,
    Function,
    Functions,
    Kitchen,
    Recurrent,
    Transposed,
    VisionTransformer,
    Windows,
    data,
    integers,
    mlp,
    mobilenet_v2,
    mobilenet_v3,
    resnet,
    seeded,
    sentences,
    tokens_at,
)
from torch import nn
from torch.export import Dim

PICTURE = data(1, 3, 32, 32)
PICTURES = data(2, 3, 8, 8)
S = torch.tensor([1.0, 2.0, 3.0])
# Network → how it is built, its inputs, its dynamic shapes, further inputs.
NETWORKS: dict[str, tuple[Any, ...]] = {
    "mobilenet_v2": (mobilenet_v2, (PICTURE,)),
    "mobilenet_v3": (mobilenet_v3, (PICTURE,)),
    "resnet": (resnet, (PICTURE,)),
    "vit": (VisionTransformer, (PICTURE,)),
    "windows": (Windows, (data(1, 8, 8, 16),)),
    "encoder": (
        Encoder,
        sentences(9),
        ({1: Dim("tokens", min=4, max=24)},) * 2,
        [sentences(4), sentences(24)],
    ),
    "decoder": (
        Decoder,
        tokens_at(0, 5),
        tuple({axis: Dim("tokens", min=1, max=8)} for axis in (1, 0)),
        [tokens_at(5, 1), tokens_at(6, 1), tokens_at(7, 8)],
    ),
}


def network(name: str) -> Any:
    build, *rest = NETWORKS[name]
    return (seeded(build), *rest)


def kitchen() -> nn.Module:
    return seeded(Kitchen)


def _planned(**options: Any) -> dict[str, Any]:
    from executorch_py.exir.passes import MemoryPlanningPass

    return {"memory_planning_pass": MemoryPlanningPass(**options)}


def _by(name: str) -> dict[str, Any]:
    from executorch_py.exir import memory_planning

    suite = memory_planning.MemoryPlanningAlgorithmSuite([getattr(memory_planning, name)])
    return _planned(memory_planning_algo=suite)


def _pass(name: str, *arguments: Any) -> Any:
    from executorch_py.exir import passes

    return getattr(passes, name)(*arguments)


def _no_copies() -> Any:
    from executorch_py.exir.passes.propagate_device_config import PropagateDeviceConfig

    return PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)


def _upper_bound() -> Any:
    from executorch_py.exir.dynamic_shape import DynamicMemoryPlanningMode

    return DynamicMemoryPlanningMode.UPPER_BOUND


def _choose_file(node: torch.fx.Node) -> str | None:
    return "weights" if "weight" in node.name else None


# Field of ExecutorchBackendConfig → values that are not its default, made when they are needed.
FIELDS: dict[str, list[Any]] = {
    "passes": [lambda: [_pass("RemoveNoopPass"), _pass("CSEPass")]],
    "memory_planning_pass": [
        lambda: _by("naive")["memory_planning_pass"],
        lambda: _by("greedy")["memory_planning_pass"],
        lambda: _planned(alignment=64)["memory_planning_pass"],
        lambda: _planned(alloc_graph_input=False, alloc_graph_output=False)["memory_planning_pass"],
        lambda: _planned(alloc_mutable_buffers=False)["memory_planning_pass"],
        lambda: _planned(share_mutable_buffers=True)["memory_planning_pass"],
    ],
    "propagate_device_config": [_no_copies],
    "to_out_var_pass": [lambda: _pass("ToOutVarPass", True)],
    "dynamic_memory_planning_mode": [_upper_bound],
    "emit_stacktrace": [True],
    "extract_delegate_segments": [False],
    "segment_alignment": [1, 4096],
    "constant_tensor_alignment": [64],
    "delegate_alignment": [64],
    "sym_shape_eval_pass": [lambda: _pass("HintBasedSymShapeEvalPass")],
    "remove_view_copy": [False],
    "external_constants": [True, _choose_file],
    "external_mutable_weights": [True],
    "emit_mutable_buffer_names": [True],
    "do_quant_fusion_and_const_prop": [True],
    "run_reinplace_pass": [True],
    "enable_non_cpu_memory_planning": [False],
    "reinplace_extra_ops": [lambda: frozenset()],
    "target": ["executorch-1.5"],
    "fold_constants": [False],
    "write_buffers_in_place": [False],
    "share_windows": [False],
    "overwrite_operands": [False],
    "remove_redundant": [False],
    "own_operators": [True],
    "choose_layouts": [False],
    "prepack": [False],
    "math": ["fast"],
    "precision": ["bf16"],
}
_OF_OWN_OPERATORS = {"choose_layouts", "prepack", "math", "precision"}
_OF_DELEGATES = {"extract_delegate_segments", "delegate_alignment", "segment_alignment"}
# State without a place in the plan, and weights of a device, are for other runtimes.
_NOT_RUN = {"memory_planning_pass/4", "external_mutable_weights/0"}


def missing_fields() -> set[str]:
    """Fields of the configuration that no export sets."""
    from executorch_py.exir import ExecutorchBackendConfig

    return {field.name for field in fields(ExecutorchBackendConfig)} - FIELDS.keys()


# Stack traces hold paths of files: those of a network without a file are the same everywhere.
_TRACED = """
class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 3)

    def forward(self, x):
        y = self.line(x)
        return y.relu() + 1
"""


def _with_stack_traces() -> Made:
    names: dict[str, Any] = {"nn": nn}
    exec(compile(_TRACED, "traced_network.py", "exec"), names)
    return portable(seeded(names["Traced"]), (data(2, 4),), emit_stacktrace=True)


def _of_field(name: str, i: int) -> Made:
    if name == "emit_stacktrace":
        return _with_stack_traces()
    value = FIELDS[name][i]
    config: dict[str, Any] = {
        name: value() if callable(value) and value is not _choose_file else value
    }
    if name in _OF_OWN_OPERATORS:
        config["own_operators"] = True
    lower = delegated if name in _OF_DELEGATES else portable
    if f"{name}/{i}" == "memory_planning_pass/4":
        config |= {"emit_mutable_buffer_names": True, "share_windows": False}
    made = lower(kitchen(), (PICTURES,), more=[(PICTURES * 2,)], **config)
    if f"{name}/{i}" in _NOT_RUN:
        made.calls = ()
    return made


# ---- groups of exports


def _networks() -> None:
    for name in NETWORKS:
        case(f"portable/{name}", lambda name: portable(*network(name)), name)
        case(
            f"own_operators/{name}",
            lambda name: portable(*network(name), own_operators=True),
            name,
        )
    case(
        "own_operators/resnet as it lies",
        lambda: portable(*network("resnet"), own_operators=True, choose_layouts=False),
    )
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        name = str(dtype).removeprefix("torch.")
        case(
            f"portable/mlp {name}",
            lambda dtype: portable(seeded(mlp).to(dtype), (data(3, 16, dtype=dtype),)),
            dtype,
        )
        case(
            f"portable/resnet {name}",
            lambda dtype: portable(seeded(resnet).to(dtype), (PICTURE.to(dtype),)),
            dtype,
        )
    case(
        "own_operators/encoder float16",
        lambda: portable(seeded(Encoder).half(), sentences(9), own_operators=True),
    )


def _sizes() -> None:
    rows = ({0: Dim("batch", min=1, max=16)},)
    case("dynamic/batch", lambda: portable(seeded(mlp), (data(3, 16),), rows, [(data(16, 16),)]))
    case(
        "dynamic/no least size",
        lambda: portable(seeded(mlp), (data(3, 16),), ({0: Dim("batch", max=8)},)),
    )
    case(
        "dynamic/picture",
        lambda: portable(
            nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).eval(),
            (PICTURES,),
            ({2: Dim("h", min=4, max=20), 3: Dim("w", min=4, max=20)},),
            [(data(2, 3, 5, 20),)],
        ),
    )
    case(
        "dynamic/arithmetic of sizes",
        lambda: portable(
            Functions(*functions.SIZES), (data(3, 4),), ((rows[0],),), [(data(16, 4),)]
        ),
    )
    case(
        "dynamic/sizes of data",
        lambda: portable(Functions(*functions.BY_DATA), (data(5, 4), torch.tensor(3))),
    )


def _settings() -> None:
    case("setting/none", lambda: portable(kitchen(), (PICTURES,), more=[(PICTURES * 2,)]))
    case("setting/none, delegated", lambda: delegated(kitchen(), (PICTURES,)))
    for name, values in FIELDS.items():
        for i in range(len(values)):
            case(f"setting/{name} {i}", lambda name, i: _of_field(name, i), name, i)
    case(
        "setting/quantized fusion",
        lambda: portable(
            kitchen(), (PICTURES,), do_quant_fusion_and_const_prop=True, target="executorch-1.5"
        ),
    )
    attention = [torch.ops.aten.scaled_dot_product_attention.default]
    case(
        "setting/preserve_ops",
        lambda: portable(
            seeded(VisionTransformer),
            (PICTURE,),
            edge={"preserve_ops": attention},
            own_operators=True,
        ),
    )
    case(
        "setting/_skip_dim_order",
        lambda: portable(seeded(resnet), (PICTURE,), edge={"_skip_dim_order": True}),
    )
    case(
        "setting/_check_ir_validity",
        lambda: portable(seeded(resnet), (PICTURE,), edge={"_check_ir_validity": False}),
    )
    case(
        "setting/_core_aten_ops_exception_list",
        lambda: portable(
            seeded(mlp),
            (data(3, 16),),
            edge={"_core_aten_ops_exception_list": [torch.ops.aten.linear.default]},
        ),
    )


def _state() -> None:
    at = torch.tensor([2])
    case("state/counter", lambda: portable(Counter(), (S,), more=[(S,), (S * 2,)]))
    case(
        "state/initial values",
        lambda: portable(
            Counter(), (S,), more=[(S,)], passes=[_pass("InitializedMutableBufferPass", ["total"])]
        ),
    )
    case("state/caches", lambda: portable(Caches(), (data(1, 2, 1, 8), at)))
    case(
        "state/caches, copied back",
        lambda: portable(Caches(), (data(1, 2, 1, 8), at), write_buffers_in_place=False),
    )
    case(
        "state/names and data file",
        lambda: portable(
            kitchen(), (PICTURES,), external_constants=True, emit_mutable_buffer_names=True
        ),
    )
    counters = {"up": (Counter(1.0), (S,)), "down": (Counter(-1.0), (S,))}
    calls = [("up", (S,)), ("down", (S,)), ("up", (S * 3,))]
    case("methods/state of their own", lambda: several(counters, calls))
    case(
        "methods/shared state",
        lambda: several(
            counters,
            calls,
            passes=[_pass("InitializedMutableBufferPass", ["total"])],
            **_planned(share_mutable_buffers=True),
        ),
    )
    constants = {"get_max_seq_len": 128, "get_name": "net", "get_scale": 0.5, "get_ids": [1, 2]}
    case(
        "methods/constants",
        lambda: several(
            {"net": (seeded(mlp), (data(2, 16),)), "again": (seeded(mlp), (data(3, 16),))},
            [("net", (data(2, 16),)), *((name, ()) for name in constants)],
            constants,
        ),
    )


def _structures() -> None:
    case("structure/control flow", lambda: portable(Functions(*functions.CONTROL), (data(5, 3),)))
    case(
        "structure/control flow, own operators",
        lambda: portable(Functions(*functions.CONTROL), (data(5, 3),), own_operators=True),
    )
    case(
        "structure/while_loop", lambda: portable(Function(functions.counted), (S, torch.tensor(4)))
    )
    case(
        "structure/nested inputs",
        lambda: portable(
            Function(functions.nested),
            ((data(2), {"b": data(2, seed=1)}), [data(3), data(1)]),
        ),
    )
    case(
        "structure/numbers as inputs",
        lambda: portable(
            Function(lambda x, n, f, b: (x * n + f) if b else x), (data(3), 2, 0.5, True)
        ),
    )
    case(
        "structure/channels last",
        lambda: portable(
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1))
            .eval()
            .to(memory_format=torch.channels_last),
            (PICTURES.to(memory_format=torch.channels_last),),
        ),
    )
    case(
        "structure/windows and wholes",
        lambda: portable(Functions(*functions.WINDOWS), (data(4, 24),)),
    )
    case(
        "structure/overwritten operands",
        lambda: portable(Functions(*functions.DYING), (data(5, 67), integers(-50, 50, 5, 67))),
    )
    case(
        "structure/patches and tokens",
        lambda: portable(
            nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(2), Transposed()).eval(), (PICTURES,)
        ),
    )


def _families() -> None:
    for name, (of, inputs) in functions.FAMILIES.items():
        case(f"family/{name}", lambda of, inputs: portable(Functions(*of), inputs), of, inputs)
    for kind in ("LSTM", "GRU", "RNN"):
        case(
            f"family/{kind}",
            lambda kind: portable(seeded(lambda: Recurrent(kind, True)), (data(2, 5, 6),)),
            kind,
        )
        case(
            f"family/{kind}, own operators",
            lambda kind: portable(
                seeded(lambda: Recurrent(kind)), (data(2, 5, 6),), own_operators=True
            ),
            kind,
        )
    case(
        "family/transformer layer",
        lambda: portable(
            seeded(lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)),
            (data(2, 5, 16),),
        ),
    )
    case("family/cached attention", _llama)


def _llama() -> Made:
    # This import registers the operators of llama::.
    importlib.import_module("executorch_py.extension.llm.custom_ops.custom_ops")
    model = functions.LlamaAttention()
    return portable(model, (data(1, 2, 16), torch.arange(2)))


# ---- other files, other ways


def _saved_and_loaded() -> Made:
    from executorch_py.exir import load, save, to_edge

    file = io.BytesIO()
    save(to_edge(exported(*network("encoder")[:3])).exported_program(), file)
    file.seek(0)
    from executorch_py.exir import EdgeProgramManager

    made = EdgeProgramManager(load(file)).to_executorch()
    return Made(made, [("forward", sentences(9))])


def _bundle() -> Made:
    from executorch_py.devtools import BundledProgram
    from executorch_py.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch_py.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer,
    )

    model, x = seeded(mlp), data(3, 16)
    made = portable(model, (x,))
    tests = [MethodTestCase([x], [model(x)]), MethodTestCase([x * 2], [model(x * 2)])]
    bundle = BundledProgram(made.program, [MethodTestSuite("forward", tests)])
    made.files["bpte"] = bytes(serialize_from_bundled_program_to_flatbuffer(bundle))
    return made


def _etrecord() -> Made:
    import zipfile

    from executorch_py.backends.xnnpack import XnnpackPartitioner
    from executorch_py.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(
        exported(kitchen(), (PICTURES,)),
        partitioner=[XnnpackPartitioner()],
        generate_etrecord=True,
    )
    made = Made(edge.to_executorch(), [("forward", (PICTURES,))])
    file = io.BytesIO()
    made.program.get_etrecord().save(file)
    with zipfile.ZipFile(file) as members:
        # Archives of programs, and the identity of a graph in memory, differ from run to run.
        names = [name for name in sorted(members.namelist()) if not name.endswith(".pt2")]
        made.files = {
            f"etrecord/{name}": members.read(name) for name in names if "graph_id" not in name
        }
        made.files["etrecord"] = "\n".join(sorted(members.namelist())).encode()
    return made


def _session() -> Made:
    from executorch_py.export import ExportRecipe, export

    session = export(
        seeded(mlp),
        [(data(3, 16),)],
        ExportRecipe(name="plain"),
        dynamic_shapes=({0: Dim("n", min=1, max=8)},),
        constant_methods={"width": 16},
    )
    return Made(session.get_executorch_program_manager(), [("forward", (data(3, 16),))])


def _others() -> None:
    case("file/saved and loaded", _saved_and_loaded)
    case("file/bundled program", _bundle)
    case("file/etrecord", _etrecord)
    case("session/plain", _session)


def register() -> None:
    for group in (_networks, _sizes, _settings, _state, _structures, _families, _others):
        group()
