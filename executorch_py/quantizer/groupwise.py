"""Weights in few bits, with a scale for each group of columns or for each row.

    get_groupwise_quantization_config(bits=4, group_size=32)       8 bits dynamically times 4
    get_weight_only_quantization_config(bits=8)                    floats times 8, tables of rows

Linear layers and, with weights alone, embeddings. Scales are bfloat16 numbers, which is what
delegates store for groups, so that the model that `convert_pt2e` gives computes with the numbers
that run later. Weights need no data; `fit="data"` rounds them so that the products of what
calibration showed change least. Annotation of these layers is here as well.
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

from executorch_py.quantizer.annotate import is_annotated, is_float, mark, quantize_input
from executorch_py.quantizer.gptq import compensated, nearest
from executorch_py.quantizer.observers import CalibrationError, Watched, module_path
from executorch_py.quantizer.spec import RowSpec, is_dynamic

aten = torch.ops.aten
LINEAR = aten.linear.default
EMBEDDING = aten.embedding.default
TABLES = frozenset({EMBEDDING})
GROUP_MULTIPLE = 32  # group sizes are multiples of it, which kernels for 4 bits need
FITS = ("weights", "data")
_BITS = {True: (4, 8), False: (2, 4, 8)}  # by whether activations are integers


@dataclass(eq=True, frozen=True)
class GroupSpec(QuantizationSpec):
    """How a matrix is quantized: so many bits, so many columns a group (None: whole rows)."""

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
    """Linear layers with weights in `bits` bits, a scale for each `group_size` columns of a row.

    bits: 4 or 8, of weights alone also 2. group_size: a multiple of 32 that divides the columns, or
    None for whole rows; 8 bits dynamically have whole rows only. is_dynamic: activations become
    int8 with a scale for each row, found at run time; else they stay float. fit: "weights" finds
    integers that are near the weights, "data" such that the products of what calibration shows
    change least: give the prepared model some thousand tokens like those it will see.
    """
    if bits not in _BITS[is_dynamic]:
        what = "with int8 activations" if is_dynamic else "of weights alone"
        raise ValueError(f"bits={bits!r}: {what} it is {' or '.join(map(str, _BITS[is_dynamic]))}")
    is_size = isinstance(group_size, int) and not isinstance(group_size, bool) and group_size > 0
    if group_size is not None and (not is_size or group_size % GROUP_MULTIPLE):
        raise ValueError(
            f"group_size={group_size!r}: needs a multiple of {GROUP_MULTIPLE}, or None for rows"
        )
    if is_dynamic and bits == 8 and group_size is not None:
        raise ValueError(
            "8-bit weights times int8 activations have a scale for each row: group_size=None"
        )
    if fit not in FITS:
        raise ValueError(f"fit={fit!r}: needs {' or '.join(map(repr, FITS))}")
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
    """Linear layers and embeddings with weights in 8, 4 or 2 bits; all else stays float."""
    return get_groupwise_quantization_config(bits, group_size, is_dynamic=False, fit=fit)


def _activations(is_dynamic: bool, fit: str) -> QuantizationSpec | None:
    if not is_dynamic and fit == "weights":
        return None
    observer = WatchedRows if fit == "data" else DynamicRows
    return RowSpec(torch.int8, observer, -128, 127, finds_scales=is_dynamic)


def is_groupwise(config: QuantizationConfig | None) -> bool:
    """Whether it came from here."""
    return config is not None and isinstance(config.weight, GroupSpec)


def is_weight_only(config: QuantizationConfig) -> bool:
    return not is_dynamic(config)


# ---- observers


class GroupObserver(AffineQuantizedObserverBase):
    """Holds a matrix; becomes its integers and their scales."""

    def __init__(self, bits: int, group_size: int | None, fit: str, **settings: Any) -> None:
        granularity = PerAxis(0) if group_size is None else PerGroup(group_size)
        limits = {key: settings[key] for key in ("quant_min", "quant_max")}
        super().__init__(MappingType.SYMMETRIC, settings["dtype"], granularity, **limits)
        self.bits, self.group_size, self.fit = bits, group_size, fit
        self.weight: torch.Tensor | None = None
        self.inputs: list[WatchedRows] = []  # a list, so that it is no module of this one's
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
            raise CalibrationError("the weights were not looked at yet: run the prepared model")
        seen = self.inputs[0].n_rows if self.inputs else 0
        if self._found is None or self._found[0] != seen:
            how = (self.group_size or self.weight.shape[1], self.quant_min, self.quant_max)
            if self.fit == "data":
                moments = self.inputs[0].moments if self.inputs else None
                if moments is None:
                    raise CalibrationError('fit="data" without data: calibrate the prepared model')
                self._found = (seen, *compensated(self.weight, moments, *how))
            else:
                self._found = (seen, *nearest(self.weight, *how))
        return self._found[1:]

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """The matrix as the integers have it."""
        self.forward(x)
        integers, scales = self.integers()
        groups = integers.reshape(*scales.shape, -1) * scales.unsqueeze(-1)
        return groups.reshape(x.shape).to(x.dtype)

    def convert(self, model: fx.GraphModule, observer_node: fx.Node) -> None:
        """In the graph: a constant of integers, and their way back to floats."""
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
    """Of weights, a scale for each group."""


class DynamicRows(AffineQuantizedObserverBase):
    """Activations whose rows get their scales and zero points at run time, each row its own."""

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
    """The same, and the second moments of the rows that pass."""

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
        """Of all rows together, for reports: each row finds its own when it runs."""
        scale = max(self.greatest - self.least, torch.finfo(torch.float32).tiny) / 255
        zero_point = round(-128 - self.least / scale)
        return torch.tensor([scale]), torch.tensor([zero_point], dtype=torch.int8)


class WatchedRows(Watched, RowMoments):
    """Of activations, whose products `fit="data"` keeps."""


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
    """Let observers of constants see them: no data is needed for that."""
    for node in model.graph.nodes:
        observer = model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if not isinstance(observer, GroupObserver) or observer.weight is not None:
            continue
        source = node.args[0]
        if source.op == "get_attr":
            observer(operator.attrgetter(str(source.target))(model))


def connect(observers: dict[Any, Any]) -> None:
    """Let the observers of weights know those of what they are multiplied by: by edge or node."""
    for place, observer in observers.items():
        if not isinstance(observer, GroupObserver) or not isinstance(place, tuple):
            continue
        for other, at in observers.items():
            if isinstance(at, WatchedRows) and isinstance(other, tuple) and other[1] is place[1]:
                observer.inputs = [at]


# ---- annotation


def take(
    model: fx.GraphModule, config: QuantizationConfig, is_wanted: Callable[[fx.Node], bool]
) -> None:
    """Annotate linear layers, and look-ups in tables if weights alone are quantized."""
    for node in model.graph.nodes:
        if node.op != "call_function" or is_annotated(node) or not is_wanted(node):
            continue
        if node.target is LINEAR and is_float(node.args[0]):
            if _take_matrix(node, node.args[1], config):
                quantize_input(node, node.args[0], config.input_activation)
        elif node.target in TABLES and is_weight_only(config):
            _take_matrix(node, node.args[0], config)


def leave_tables(model: fx.GraphModule, is_wanted: Callable[[fx.Node], bool]) -> None:
    """Decide that look-ups stay as they are."""
    for node in model.graph.nodes:
        if node.target in TABLES and not is_annotated(node) and is_wanted(node):
            mark(node)


def _take_matrix(node: fx.Node, weight: Any, config: QuantizationConfig) -> bool:
    """Whether the node's matrix is one of the model's, which it then reads quantized."""
    spec = config.weight
    assert isinstance(spec, GroupSpec)
    if not is_float(weight) or weight.op != "get_attr":
        return False
    n_columns = weight.meta["val"].shape[1]
    size = spec.columns_of_group(n_columns)
    layer = module_path(node) or node.name
    if n_columns % size:
        raise ValueError(
            f"{layer}: its weights have {n_columns} columns, which groups of {size} do not divide; "
            f"give it another group_size (None for rows), or leave it: "
            f"set_module_name({layer!r}, None)"
        )
    if node.target in TABLES:
        if n_columns % (8 // spec.bits):
            raise ValueError(
                f"{layer}: rows of {n_columns} numbers of {spec.bits} bits are no whole bytes"
            )
        spec = replace(spec, fit="weights")  # a look-up multiplies with nothing
    quantize_input(node, weight, spec)
    mark(weight)
    return True


__all__ = [
    "GroupSpec",
    "get_groupwise_quantization_config",
    "get_weight_only_quantization_config",
    "is_groupwise",
]
