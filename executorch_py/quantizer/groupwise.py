"""Low-bit weights with a scale for each group of columns or for each row.

    get_groupwise_quantization_config(bits=4, group_size=32)   int8 activations, 4-bit weights
    get_weight_only_quantization_config(bits=8)                float activations, 8-bit weights

The configurations are for linear layers and, with weights alone, for embeddings. Scales are
bfloat16 numbers, as delegates store them for groups, so that the model that `convert_pt2e` gives
computes with the numbers of the deployed program. Rounding the weights needs no data; `fit="data"`
rounds them by GPTQ, so that products with the calibration data change least. Annotation of these
layers is here as well.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torchao.quantization.granularity import PerAxis, PerGroup, PerRow
from torchao.quantization.pt2e import AffineQuantizedObserverBase
from torchao.quantization.pt2e.quantizer import QuantizationConfig, QuantizationSpec
from torchao.quantization.pt2e.utils import create_getattr_from_value
from torchao.quantization.quant_primitives import MappingType

from executorch_py.exir.settings_check import is_whole_number
from executorch_py.quantizer.annotate import is_annotated, is_float, mark, quantize_input
from executorch_py.quantizer.gptq import round_gptq, round_to_nearest
from executorch_py.quantizer.observers import CalibrationError, Watched, module_path
from executorch_py.quantizer.spec import RowSpec, is_dynamic

aten = torch.ops.aten
LINEAR = aten.linear.default
EMBEDDING = aten.embedding.default
EMBEDDINGS = frozenset({EMBEDDING})
GROUP_MULTIPLE = 32  # kernels for 4-bit weights need group sizes that are multiples of it
FITS = ("weights", "data")
_BITS = {True: (4, 8), False: (2, 4, 8)}  # by whether activations are quantized


@dataclass(eq=True, frozen=True)
class GroupSpec(QuantizationSpec):
    """Quantization of a matrix: bits, and columns per group (None: whole rows)."""

    bits: int = 4
    group_size: int | None = 32
    fit: str = "weights"

    def columns_of_group(self, n_columns: int) -> int:
        return n_columns if self.group_size is None else self.group_size


def get_groupwise_quantization_config(
    bits: int = 4,
    group_size: int | None = 32,
    is_dynamic: bool = True,
    fit: str = "weights",
) -> QuantizationConfig:
    """Linear layers whose weights have `bits` bits and a scale for each `group_size` columns.

    bits: 4 or 8, or 2 if weights alone are quantized. group_size: a multiple of 32 that divides the
    columns, or None for whole rows, which 8-bit weights with dynamic activations require.
    is_dynamic: activations become int8 with a scale for each row, found at run time; otherwise they
    stay float. fit: "weights" rounds to the nearest integers; "data" rounds by GPTQ on calibration
    data, some thousand representative tokens.
    """
    if bits not in _BITS[is_dynamic]:
        what = "with int8 activations" if is_dynamic else "for weights alone"
        allowed = " or ".join(map(str, _BITS[is_dynamic]))
        raise ValueError(f"bits: expected {allowed} {what}, got {bits!r}")
    if group_size is not None:
        if not is_whole_number(group_size) or group_size <= 0 or group_size % GROUP_MULTIPLE:
            raise ValueError(
                f"group_size: expected a multiple of {GROUP_MULTIPLE}, or None for rows, "
                f"got {group_size!r}"
            )
        group_size = int(group_size)
    if is_dynamic and bits == 8 and group_size is not None:
        raise ValueError(
            "group_size: expected None, as 8-bit weights with int8 activations have a scale for "
            f"each row, got {group_size}"
        )
    if fit not in FITS:
        raise ValueError(f"fit: expected {' or '.join(map(repr, FITS))}, got {fit!r}")
    half = 2 ** (bits - 1)
    weight = GroupSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=WatchedGroups,
        quant_min=-half,
        quant_max=half - 1,
        bits=bits,
        group_size=group_size,
        fit=fit,
    )
    return QuantizationConfig(_activations(is_dynamic, fit), None, weight, None)


def get_weight_only_quantization_config(
    bits: int = 8, group_size: int | None = None, fit: str = "weights"
) -> QuantizationConfig:
    """Linear layers and embeddings with weights of 8, 4 or 2 bits; activations stay float."""
    return get_groupwise_quantization_config(bits, group_size, is_dynamic=False, fit=fit)


def _activations(is_dynamic: bool, fit: str) -> QuantizationSpec | None:
    if not is_dynamic and fit == "weights":
        return None
    observer = WatchedRows if fit == "data" else DynamicRows
    return RowSpec(torch.int8, observer, -128, 127, finds_scales=is_dynamic)


def is_groupwise(config: QuantizationConfig | None) -> bool:
    """Whether a configuration is made by this module."""
    return config is not None and isinstance(config.weight, GroupSpec)


def is_weight_only(config: QuantizationConfig) -> bool:
    """Whether a configuration of this module leaves activations float."""
    return not is_dynamic(config)


# ---- observers


class GroupObserver(AffineQuantizedObserverBase):
    """Observer of a weight matrix, which is replaced by its integers and scales at conversion."""

    def __init__(self, bits: int, group_size: int | None, fit: str, **settings: Any) -> None:
        granularity = PerAxis(0) if group_size is None else PerGroup(group_size)
        limits = {key: settings[key] for key in ("quant_min", "quant_max")}
        super().__init__(MappingType.SYMMETRIC, settings["dtype"], granularity, **limits)
        self.bits, self.group_size, self.fit = bits, group_size, fit
        self.weight: torch.Tensor | None = None
        self.inputs: list[WatchedRows] = []  # a list, so that it does not become a submodule
        self._found: tuple[int, torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.weight is None or self.weight.data_ptr() != x.data_ptr():
            self.weight, self._found = x.detach(), None
        return x

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scales and zero points [rows, groups]."""
        scales = self.integers()[1]
        return scales, torch.zeros_like(scales, dtype=torch.int8)

    def integers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The integers and their scales."""
        if self.weight is None:
            raise CalibrationError("the weights were not observed yet: run the prepared model")
        seen = self.inputs[0].n_rows if self.inputs else 0
        if self._found is None or self._found[0] != seen:
            how = (self.group_size or self.weight.shape[1], self.quant_min, self.quant_max)
            if self.fit == "data":
                moments = self.inputs[0].moments if self.inputs else None
                if moments is None:
                    raise CalibrationError('fit="data" without data: calibrate the prepared model')
                self._found = (seen, *round_gptq(self.weight, moments, *how))
            else:
                self._found = (seen, *round_to_nearest(self.weight, *how))
        return self._found[1:]

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """The matrix after rounding, as floats."""
        self.forward(x)
        integers, scales = self.integers()
        groups = integers.reshape(*scales.shape, -1) * scales.unsqueeze(-1)
        return groups.reshape(x.shape).to(x.dtype)

    def convert(self, model: fx.GraphModule, observer_node: fx.Node) -> None:
        """Replace the observer in the graph by a constant of integers and its dequantization."""
        show_weights(model)
        scales, zero_points = self.calculate_qparams()
        integers = self.integers()[0]
        assert self.weight is not None
        with model.graph.inserting_before(observer_node):
            constants = [
                create_getattr_from_value(model, model.graph, name, value, value.device)
                for name, value in (
                    ("_quantized", integers),
                    ("_scale", scales),
                    ("_zero_point", zero_points),
                )
            ]
            block = [1, integers.shape[1] // scales.shape[1]]
            back = model.graph.call_function(
                torch.ops.torchao.dequantize_affine.default,
                (constants[0], block, *constants[1:], torch.int8, self.quant_min, self.quant_max),
                {"output_dtype": self.weight.dtype},
            )
        observer_node.replace_all_uses_with(back)
        model.graph.erase_node(observer_node)


class WatchedGroups(Watched, GroupObserver):
    """Observer of weights with a scale for each group."""


class DynamicRows(AffineQuantizedObserverBase):
    """Observer of activations whose rows get their own scales and zero points at run time."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            MappingType.ASYMMETRIC,
            settings["dtype"],
            PerRow(),
            settings["quant_min"],
            settings["quant_max"],
        )
        self.finds_scales = bool(settings["finds_scales"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(1), torch.zeros(1, dtype=torch.int8)

    def convert(self, model: fx.GraphModule, observer_node: fx.Node) -> None:
        x = observer_node.args[0]
        with model.graph.inserting_before(observer_node):
            replacement = _rows_as_integers(model.graph, x) if self.finds_scales else x
        observer_node.replace_all_uses_with(replacement)
        model.graph.erase_node(observer_node)


class RowMoments(DynamicRows):
    """Observer of rows that also sums their second moments, for GPTQ."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.moments: torch.Tensor | None = None
        self.n_rows = 0
        self.least = self.greatest = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.detach().to(torch.float32).reshape(-1, x.shape[-1])
        product = rows.t() @ rows
        self.moments = product if self.moments is None else self.moments.add_(product)
        self.n_rows += len(rows)
        least, greatest = torch.aminmax(rows)
        self.least = min(self.least, float(least))
        self.greatest = max(self.greatest, float(greatest))
        return x

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point of all rows together, for reports; each row has its own later."""
        scale = max(self.greatest - self.least, torch.finfo(torch.float32).tiny) / 255
        zero_point = round(-128 - self.least / scale)
        return torch.tensor([scale]), torch.tensor([zero_point], dtype=torch.int8)


class WatchedRows(Watched, RowMoments):
    """Observer of activations for `fit="data"`."""


def _rows_as_integers(graph: fx.Graph, x: Any) -> fx.Node:
    library, int8 = torch.ops.quantized_decomposed, torch.int8
    chosen = graph.call_function(library.choose_qparams_per_token_asymmetric.default, (x, int8))
    scale, zero = (graph.call_function(operator.getitem, (chosen, i)) for i in (0, 1))
    numbers = (scale, zero, -128, 127, int8)
    integers = graph.call_function(library.quantize_per_token.default, (x, *numbers))
    return graph.call_function(
        library.dequantize_per_token.default, (integers, *numbers, torch.float32)
    )


def show_weights(model: fx.GraphModule) -> None:
    """Call the observers of constants with the constants, which needs no data."""
    for node in model.graph.nodes:
        observer = model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if not isinstance(observer, GroupObserver) or observer.weight is not None:
            continue
        source = node.args[0]
        if source.op == "get_attr":
            observer(operator.attrgetter(str(source.target))(model))


def connect(observers: dict[Any, Any]) -> None:
    """Connect the observers of weights with those of the activations that they multiply.

    observers: by edge (operand, reader) or node, as torchao's prepare passes them to quantizers.
    """
    for place, observer in observers.items():
        if not isinstance(observer, GroupObserver) or not isinstance(place, tuple):
            continue
        for other, at in observers.items():
            if isinstance(at, WatchedRows) and isinstance(other, tuple) and other[1] is place[1]:
                observer.inputs = [at]


# ---- annotation


def annotate_groupwise(
    model: fx.GraphModule, config: QuantizationConfig, is_wanted: Callable[[fx.Node], bool]
) -> None:
    """Annotate linear layers, and embeddings if weights alone are quantized."""
    for node in model.graph.nodes:
        if node.op != "call_function" or is_annotated(node) or not is_wanted(node):
            continue
        if node.target is LINEAR and is_float(node.args[0]):
            if _annotate_weight(node, node.args[1], config):
                quantize_input(node, node.args[0], config.input_activation)
        elif node.target in EMBEDDINGS and is_weight_only(config):
            _annotate_weight(node, node.args[0], config)


def leave_embeddings(model: fx.GraphModule, is_wanted: Callable[[fx.Node], bool]) -> None:
    """Annotate embeddings as staying float."""
    for node in model.graph.nodes:
        if node.target in EMBEDDINGS and not is_annotated(node) and is_wanted(node):
            mark(node)


def _annotate_weight(node: fx.Node, weight: Any, config: QuantizationConfig) -> bool:
    """Annotate the weight matrix of a node, and return whether it is a constant of the model."""
    spec = config.weight
    assert isinstance(spec, GroupSpec)
    if not is_float(weight) or weight.op != "get_attr":
        return False
    n_columns = weight.meta["val"].shape[1]
    size = spec.columns_of_group(n_columns)
    layer = module_path(node) or node.name
    if n_columns % size:
        raise ValueError(
            f"{layer}: expected weights whose columns groups of {size} divide, got {n_columns} "
            f"columns; set another group_size (None for rows), or leave the layer float: "
            f"set_module_name({layer!r}, None)"
        )
    if node.target in EMBEDDINGS:
        if n_columns % (8 // spec.bits):
            raise ValueError(
                f"{layer}: expected rows that fill whole bytes, got {n_columns} values of "
                f"{spec.bits} bits per row"
            )
        spec = replace(spec, fit="weights")  # an embedding has no product to fit
    quantize_input(node, weight, spec)
    mark(weight)
    return True


__all__ = [
    "GroupSpec",
    "get_groupwise_quantization_config",
    "get_weight_only_quantization_config",
    "is_groupwise",
]
