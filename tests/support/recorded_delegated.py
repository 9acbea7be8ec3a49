"""Exports for delegates, and of quantized programs, delegated or not.

See recorded_exports.py, which runs them. Ranges that calibration observes depend on instructions of
the processor: hashes of quantized exports are those of one class of machines.
"""

from __future__ import annotations

import copy
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recorded_functions as functions
import torch
from recorded_exports import Inputs, Made, case, delegated, exported, portable, several
from recorded_models import (
    Attention,
    Counter,
    Function,
    Functions,
    Recurrent,
    Residual,
    data,
    integers,
    mlp,
    mobilenet_v2,
    normed,
    resnet,
    seeded,
)
from recorded_portable import NETWORKS, PICTURE, PICTURES, kitchen, network
from torch import nn
from torch.export import Dim

ROWS, IDS = data(3, 64), torch.tensor([[1, 39, 5], [0, 3, 7]])
CONVOLVED = data(1, 4, 8, 8)


def convolutions() -> nn.Module:
    return seeded(functions.Convolutions)


def _attend() -> nn.Module:
    return seeded(Attention)


class Words(nn.Module):
    """A table and two linear layers, for weights of few bits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 64)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64, bias=False)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.table(indices))))


# ---- delegated, in floats


def _partitioner(**options: Any) -> Any:
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    return XnnpackPartitioner(**options)


def _precision(name: str) -> Any:
    from executorch_py.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType

    return ConfigPrecisionType[name]


def _gemm_configs() -> list[Any]:
    from executorch_py.backends.xnnpack.partition.config.gemm_configs import (
        AddmmConfig,
        LinearConfig,
        MMConfig,
    )

    return [LinearConfig, AddmmConfig, MMConfig]


# Options of XnnpackPartitioner, made when they are needed.
OPTIONS: dict[str, Any] = {
    "per_op_mode": lambda: {"per_op_mode": True},
    "leave_small_regions": lambda: {"leave_small_regions": True},
    "enable_bf16": lambda: {"enable_bf16": True},
    "weights outside": lambda: {"force_non_static_weights_for_f32_linear": True},
    "floats only": lambda: {"config_precisions": _precision("FP32")},
    "products only": lambda: {"configs": _gemm_configs()},
}


def _floats() -> None:
    for name in NETWORKS:
        case(f"xnnpack/{name}", lambda name: delegated(*network(name)), name)
    for name, of in (
        ("activations", functions.ACTIVATIONS),
        ("arithmetic", functions.ARITHMETIC),
        ("moves", functions.MOVES),
    ):
        x = data(2, 4, 8, 8)
        case(f"xnnpack/{name}", lambda of, x: delegated(Functions(*of), (x,)), of, x)
        case(f"xnnpack/{name} f16", lambda of, x: delegated(Functions(*of), (x.half(),)), of, x)
    case("xnnpack/convolutions", lambda: delegated(convolutions(), (CONVOLVED,)))
    for name, build, x in (
        ("mlp", lambda: seeded(mlp), data(3, 16)),
        ("resnet", lambda: seeded(resnet), PICTURE),
        ("attention", _attend, data(1, 6, 32)),
    ):
        case(
            f"xnnpack/{name} f16",
            lambda build, x: delegated(build().half(), (x.half(),)),
            build,
            x,
        )
    for name, options in OPTIONS.items():
        case(
            f"xnnpack/option {name}",
            lambda options: delegated(
                kitchen(), (PICTURES,), partitioner=_partitioner(**options())
            ),
            options,
        )
    case(
        "xnnpack/option enable_bf16 of bf16",
        lambda: delegated(
            seeded(mlp).bfloat16(),
            (data(3, 16).bfloat16(),),
            partitioner=_partitioner(enable_bf16=True),
        ),
    )
    case(
        "xnnpack/dynamic rows",
        lambda: delegated(
            _attend(), (data(1, 6, 32),), ({1: Dim("n", min=2, max=24)},), [(data(1, 24, 32),)]
        ),
    )
    case("xnnpack/own operators", lambda: delegated(kitchen(), (PICTURES,), own_operators=True))
    case("xnnpack/data file", lambda: delegated(kitchen(), (PICTURES,), external_constants=True))
    case("xnnpack/control flow", lambda: delegated(Functions(*functions.CONTROL), (data(5, 3),)))
    for kind in ("LSTM", "GRU", "RNN"):
        case(
            f"xnnpack/{kind}",
            lambda kind: delegated(seeded(lambda: Recurrent(kind)), (data(2, 5, 6),)),
            kind,
        )
    case("xnnpack/methods that share weights", _sharing)


def _sharing() -> Made:
    net = seeded(mlp)
    methods: dict[str, tuple[nn.Module, Inputs]] = {
        "one": (net, (data(1, 16),)),
        "many": (net, (data(5, 16),)),
        "count": (Counter(), (data(3),)),
    }
    calls = [(name, inputs) for name, (_, inputs) in methods.items()]
    return several(methods, calls, {"version": 3}, _partitioner())


def _at_load(**options: Any) -> Made:
    """Options of the delegate at load change no bit of a result."""
    from executorch_py.runtime import WorkspaceSharing

    if "workspace_sharing_mode" in options:
        options["workspace_sharing_mode"] = WorkspaceSharing[options["workspace_sharing_mode"]]
    made = _sharing()
    made.options = options
    return made


def _packed_file() -> Made:
    """Packed weights in a file: their bytes are those of one class of machines."""
    from executorch_py.runtime import Runtime

    made = delegated(*network("mobilenet_v2"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed"
        made.options = {"packed_cache_path": str(path)}
        program = Runtime.get().load_program(
            made.program.buffer, n_threads=1, backend_options={"XnnpackBackend": made.options}
        )
        program.load_method("forward").execute([PICTURE])
        made.files["packed"] = hashlib.sha256(path.read_bytes()).digest()
    made.options = {}
    return made


def _options_at_load() -> None:
    for mode in ("Disabled", "PerModel", "Global"):
        case(
            f"xnnpack at load/workspace {mode}",
            lambda mode: _at_load(workspace_sharing_mode=mode),
            mode,
        )
    case("xnnpack at load/no weight cache", lambda: _at_load(weight_cache_enabled=False))
    case("xnnpack at load/packed weights", _packed_file)


def _demo() -> Made:
    from executorch_py.exir import ExecutorchBackendConfig, to_edge
    from executorch_py.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo

    program = exported(Function(lambda a, x, b: torch.mm(a, x) + b), (data(2, 2),) * 3)
    edge = to_edge(program).to_backend(AddMulPartitionerDemo())
    return Made(edge.to_executorch(ExecutorchBackendConfig()))


def _reference() -> Made:
    from executorch_py.backends.reference import ReferencePartitioner

    model = Function(lambda x, y: (((x + y) * x).relu() - y).tanh() + x)
    return delegated(model, (data(3, 4), data(3, 4)), partitioner=ReferencePartitioner())


def _other_delegates() -> None:
    case("reference/arithmetic", _reference)
    case("demo/product and sum", _demo)


# ---- quantized


def symmetric(**options: Any) -> Any:
    from executorch_py.quantizer import get_symmetric_quantization_config

    return get_symmetric_quantization_config(**options)


def _grouped(bits: int, size: int | None) -> Any:
    from executorch_py.quantizer import get_groupwise_quantization_config

    return get_groupwise_quantization_config(bits, size)


def _weights(bits: int, size: int | None = None) -> Any:
    from executorch_py.quantizer import get_weight_only_quantization_config

    return get_weight_only_quantization_config(bits, size)


def quantized(
    model: nn.Module,
    inputs: Inputs,
    config: Any,
    table: Any = None,
    dynamic: Any = None,
    samples: Sequence[Inputs] | None = None,
) -> nn.Module:
    """Prepared, calibrated and converted by PT2E."""
    from executorch_py.quantizer import XNNPACKQuantizer, calibrate, convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(config)
    if table is not None:
        quantizer.set_module_type(nn.Embedding, table)
    prepared = prepare_pt2e(exported(model, inputs, dynamic).module(), quantizer)
    with torch.no_grad():
        calibrate(prepared, [inputs] if samples is None else samples)
    converted: nn.Module = convert_pt2e(prepared)
    return converted


def _int8(name: str) -> tuple[nn.Module, Inputs]:
    build, inputs = NETWORKS[name][:2]
    config = symmetric(is_per_channel=True)
    return quantized(seeded(build), inputs, config), inputs


def _int8_networks() -> None:
    for name in ("mobilenet_v2", "mobilenet_v3", "resnet", "vit", "encoder"):
        case(f"int8/{name}", lambda name: delegated(*_int8(name)), name)
        case(
            f"int8/{name}, own operators",
            lambda name: portable(*_int8(name), own_operators=True),
            name,
        )
    case("int8/resnet, any runtime", lambda: portable(*_int8("resnet")))
    case(
        "int8/resnet, upstream's kernels",
        lambda: portable(*_int8("resnet"), target="executorch-1.5"),
    )
    case(
        "int8/seven bits",
        lambda: delegated(
            quantized(
                seeded(mobilenet_v2),
                (PICTURE,),
                symmetric(is_per_channel=True, weight_qmin=-64, weight_qmax=63),
            ),
            (PICTURE,),
        ),
    )


# Configuration → how it is made; each is used on convolutions and on linear layers.
LAYERS: dict[str, dict[str, bool]] = {
    "a tensor": {},
    "a channel": {"is_per_channel": True},
    "a channel, dynamic": {"is_per_channel": True, "is_dynamic": True},
    "a tensor, dynamic": {"is_dynamic": True},
}
FEW_BITS: dict[str, Any] = {
    "groups of 32, table of 8": lambda: (_grouped(4, 32), _weights(8)),
    "groups of 64": lambda: (_grouped(4, 64), None),
    "rows": lambda: (_grouped(4, None), None),
    "8 bits alone": lambda: (_weights(8), None),
    "4 bits in rows alone, table of 2": lambda: (_weights(4), _weights(2, 64)),
    "4 bits in groups alone": lambda: (_weights(4, 32), None),
}


def _by_layer() -> None:
    for name, options in LAYERS.items():
        case(
            f"int8 layers/convolutions, {name}",
            lambda options: delegated(
                quantized(convolutions(), (CONVOLVED,), symmetric(**options)), (CONVOLVED,)
            ),
            options,
        )
        case(
            f"int8 layers/linear, {name}",
            lambda options: delegated(
                quantized(seeded(lambda: mlp(64)), (ROWS,), symmetric(**options)), (ROWS,)
            ),
            options,
        )
        case(
            f"int8 layers/linear, {name}, own operators",
            lambda options: portable(
                quantized(seeded(lambda: mlp(64)), (ROWS,), symmetric(**options)),
                (ROWS,),
                own_operators=True,
            ),
            options,
        )
    case(
        "int8 layers/convolutions, own operators",
        lambda: portable(
            quantized(convolutions(), (CONVOLVED,), symmetric(is_per_channel=True)),
            (CONVOLVED,),
            own_operators=True,
        ),
    )
    for name, make in FEW_BITS.items():
        case(f"few bits/{name}, xnnpack", lambda make: delegated(_few(*make()), (IDS,)), make)
        case(
            f"few bits/{name}, own operators",
            lambda make: portable(_few(*make()), (IDS,), own_operators=True),
            make,
        )
    case("few bits/groups, any runtime", lambda: portable(_few(_grouped(4, 32), None), (IDS,)))
    for kind in ("LSTM", "GRU"):
        case(
            f"int8 layers/{kind}",
            lambda kind: delegated(
                quantized(
                    seeded(lambda: Recurrent(kind)),
                    (data(2, 5, 6),),
                    symmetric(is_per_channel=True),
                ),
                (data(2, 5, 6),),
            ),
            kind,
        )
    case("int8 layers/dynamic partitioner", _dynamic_partitioner)


def _few(linear: Any, table: Any) -> nn.Module:
    return quantized(seeded(Words), (IDS,), linear, table)


def _dynamic_partitioner() -> Made:
    from executorch_py.backends.xnnpack import XnnpackDynamicallyQuantizedPartitioner

    config = symmetric(is_per_channel=True, is_dynamic=True)
    model = quantized(seeded(lambda: mlp(64)), (ROWS,), config)
    return delegated(model, (ROWS,), partitioner=XnnpackDynamicallyQuantizedPartitioner())


# ---- torchao's quantize_

TORCHAO: dict[str, tuple[str, dict[str, Any], type[nn.Module]]] = {
    "8da4w": (
        "Int8DynamicActivationIntxWeightConfig",
        {"weight_dtype": torch.int4, "weight_granularity": ("PerGroup", 32)},
        nn.Linear,
    ),
    "8da4w with zero points": (
        "Int8DynamicActivationIntxWeightConfig",
        {"weight_dtype": torch.int4, "weight_mapping_type": "ASYMMETRIC"},
        nn.Linear,
    ),
    "8da8w in groups": (
        "Int8DynamicActivationIntxWeightConfig",
        {"weight_dtype": torch.int8},
        nn.Linear,
    ),
    "int8 times int8": ("Int8DynamicActivationInt8WeightConfig", {}, nn.Linear),
    "int8 alone": ("Int8WeightOnlyConfig", {}, nn.Linear),
    "4 bits alone": (
        "IntxWeightOnlyConfig",
        {"weight_dtype": torch.int4, "granularity": ("PerGroup", 32)},
        nn.Linear,
    ),
    "table of 2 bits": (
        "IntxWeightOnlyConfig",
        {"weight_dtype": torch.int2, "granularity": ("PerGroup", 32)},
        nn.Embedding,
    ),
}


def _by_torchao(name: str) -> nn.Module:
    from torchao import quantization
    from torchao.quantization import granularity

    config, given, of = TORCHAO[name]
    settings = dict(given)
    for key in ("granularity", "weight_granularity"):
        if key in settings:
            kind, *size = settings[key]
            settings[key] = getattr(granularity, kind)(*size)
    if "weight_mapping_type" in settings:
        settings["weight_mapping_type"] = quantization.MappingType[settings["weight_mapping_type"]]
    model = seeded(Words)
    chosen = getattr(quantization, config)(**settings)
    quantization.quantize_(model, chosen, lambda module, _: isinstance(module, of))
    return model


def _torchao() -> None:
    for name in TORCHAO:
        case(f"torchao/{name}", lambda name: portable(_by_torchao(name), (IDS,)), name)
        case(f"torchao/{name}, xnnpack", lambda name: delegated(_by_torchao(name), (IDS,)), name)
        case(
            f"torchao/{name}, own operators",
            lambda name: portable(_by_torchao(name), (IDS,), own_operators=True),
            name,
        )


# ---- training, integers in and out, recipes


def _trained() -> Made:
    from executorch_py.quantizer import (
        XNNPACKQuantizer,
        convert_pt2e,
        move_exported_model_to_eval,
        prepare_qat_pt2e,
    )

    def build() -> nn.Module:
        return nn.Sequential(
            normed(3, 8, 3, nn.ReLU()),
            Residual(8, 8, 1, False),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
        )

    model, x = seeded(build).train(), data(4, 3, 8, 8)
    config = symmetric(is_per_channel=True, is_qat=True)
    graph = torch.export.export(model, (x,)).module()
    prepared = prepare_qat_pt2e(graph, XNNPACKQuantizer().set_global(config))
    optimizer = torch.optim.SGD(prepared.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        prepared(x).square().mean().backward()
        optimizer.step()
    converted = convert_pt2e(move_exported_model_to_eval(copy.deepcopy(prepared)))
    return delegated(converted, (x,))


class TwoReaders(nn.Module):
    """Two readers of one input, an input of indices, an output that is read again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.line = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.conv(x) + x
        z = self.line(y)
        return y, z, z.softmax(-1)[i]


def _integers_in_and_out(partitioner: Any, **config: Any) -> Made:
    from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch_py.quantizer import quantize_io

    inputs = (PICTURES, torch.tensor([1, 0]))
    model = quantized(seeded(TwoReaders), inputs, symmetric(is_per_channel=True))
    made = quantize_io(exported(model, inputs), outputs=[0, 1])
    edge = to_edge_transform_and_lower(
        made.program,
        partitioner=[partitioner] if partitioner else None,
        constant_methods=made.constant_methods,
    )
    codes = integers(-128, 128, 2, 3, 8, 8).to(torch.int8)
    calls: list[tuple[str, Inputs]] = [("forward", (codes, inputs[1]))]
    calls += [(name, ()) for name in sorted(made.constant_methods)]
    return Made(edge.to_executorch(ExecutorchBackendConfig(**config)), calls)


def _mixed() -> Made:
    """Layers chosen by their sensitivity: the search of `quantize`."""
    from executorch_py.quantizer import quantize

    model, x = seeded(lambda: mlp(64)), data(16, 64)
    with torch.no_grad():
        wanted = model(x)

    def closeness(candidate: Any) -> float:
        with torch.no_grad():
            return -float((candidate(x) - wanted).abs().max())

    found = quantize(model, [(x,)], max_drop=0.02, metric=closeness)
    return delegated(found.module, (x,))


def _recipe(name: str) -> Made:
    from executorch_py.backends.xnnpack.recipes.xnnpack_recipe_types import XNNPackRecipeType
    from executorch_py.export import ExportRecipe, export

    recipe = ExportRecipe.get_recipe(XNNPackRecipeType[name])
    session = export(seeded(lambda: mlp(64)), [(ROWS,)], recipe)
    return Made(session.get_executorch_program_manager(), [("forward", (ROWS,))])


def _others() -> None:
    case("trained/delegated", _trained)
    case("integers/any runtime", lambda: _integers_in_and_out(None))
    case("integers/own operators", lambda: _integers_in_and_out(None, own_operators=True))
    case("integers/xnnpack", lambda: _integers_in_and_out(_partitioner()))
    case("search/mixed precision", _mixed)
    for name in (
        "FP32",
        "PT2E_INT8_DYNAMIC_PER_CHANNEL",
        "PT2E_INT8_STATIC_PER_CHANNEL",
        "PT2E_INT8_STATIC_PER_TENSOR",
        "TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL",
        "TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR",
    ):
        case(f"session/xnnpack {name}", lambda name: _recipe(name), name)


def register() -> None:
    groups = (_floats, _options_at_load, _other_delegates, _int8_networks, _by_layer, _torchao)
    for group in (*groups, _others):
        group()
