"""Quantization to a bound: the most sensitive layers stay float until the loss is small enough."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torchao.quantization.pt2e.quantizer import Quantizer

from executorch_py.exir.ir.graph import deep_copy
from executorch_py.quantizer.calibrate import arguments_of, calibrate
from executorch_py.quantizer.composable_quantizer import ComposableQuantizer
from executorch_py.quantizer.observers import Watched, module_path
from executorch_py.quantizer.patterns import SHARING, NodeFilter
from executorch_py.quantizer.prepare import prepare_pt2e
from executorch_py.quantizer.qat import convert_pt2e, refuse_training
from executorch_py.quantizer.spec import QuantizationConfig, get_symmetric_quantization_config
from executorch_py.quantizer.sqnr import flat_inputs, sqnr_db

Metric = Callable[[nn.Module], float]
# A target's quantizer with one configuration for the nodes that a filter accepts.
MakeQuantizer = Callable[[QuantizationConfig, NodeFilter], Quantizer]
PROBES = 8  # samples that sensitivities are measured with

_make_quantizer: MakeQuantizer


def set_quantizer(make: MakeQuantizer) -> None:
    """Set the target that `quantize` quantizes for; the package does so, which knows targets."""
    global _make_quantizer
    _make_quantizer = make


@dataclass(frozen=True)
class Sensitivity:
    """What quantizing one layer alone does to the model's outputs."""

    name: str
    module: str
    operator: str
    sqnr_db: float


@dataclass(frozen=True)
class Quantized:
    """What `quantize` gives.

    module: the converted model, to be exported. before, after: the metric of the float and of the
    quantized model. left_float: layers that stayed float, or were given what `instead` says, the
    most sensitive first.
    """

    module: fx.GraphModule
    before: float
    after: float
    left_float: Sequence[Sensitivity]
    n_layers: int
    instead: QuantizationConfig | None = None

    def __str__(self) -> str:
        what = "quantized" if self.instead is None else "quantized as asked"
        lines = [
            f"metric {self.before:.4g} -> {self.after:.4g}, {self.before - self.after:.2g} lost;"
            f" {self.n_layers - len(self.left_float)} of {self.n_layers} layers {what}"
        ]
        left = "left float" if self.instead is None else "instead"
        lines += [
            f"  {left}: {s.name} ({s.module or 'functional'}), alone {s.sqnr_db:.1f} dB"
            for s in self.left_float
        ]
        return "\n".join(lines)


def quantize(
    model: nn.Module,
    data: Iterable[Any],
    *,
    max_drop: float,
    metric: Metric | None = None,
    config: QuantizationConfig | None = None,
    instead: QuantizationConfig | None = None,
    dynamic_shapes: Any = None,
    progress: bool = True,
) -> Quantized:
    """Quantize an eager model so that a metric falls by at most `max_drop`.

    data: samples as for `calibrate`; the model is calibrated on all of them. metric: a number for a
    model that is called like the given one, the greater the better, asked without gradients; when
    None, the mean cosine between the outputs and the float model's, over the data. config: int8
    with a scale for each channel of weights, unless another is given. The fewest of the most
    sensitive layers stay float, found by halving; with `instead` they are quantized by that: in 8
    bits, say, where 4 lose much.

    Raises ValueError when the metric gives no finite number for the float model, and
    TrainingModeError when norms or dropout of the model are in training.
    """
    if not max_drop >= 0:
        raise ValueError(f"max_drop={max_drop!r}: needs a number that is not negative")
    samples = list(data)
    if not samples:
        raise ValueError("no sample to quantize with: the data is empty")
    positional, named = arguments_of(samples[0])
    exported = torch.export.export(model, positional, named, dynamic_shapes=dynamic_shapes).module()
    refuse_training(exported)
    rate = metric if metric is not None else _cosine_to(model, samples)

    def measure(candidate: nn.Module) -> float:
        with torch.no_grad():
            return float(rate(candidate))

    config = config or get_symmetric_quantization_config(True)
    task = _Task(exported, samples, config, instead, progress)
    before = measure(model)
    if not math.isfinite(before):
        raise ValueError(f"the metric of the float model is {before}: needs a finite number")
    prepared = task.prepared(frozenset())
    n_layers = len(layers_of(prepared))
    made: fx.GraphModule = convert_pt2e(deep_copy(prepared))
    after = measure(made)
    left: Sequence[Sensitivity] = ()
    if not before - after <= max_drop:
        layers = sensitivities(prepared, samples[:PROBES])
        made, after, left = _fewest(task, layers, measure, before - max_drop)
    return Quantized(made, before, after, left, n_layers, instead)


def sensitivities(prepared: fx.GraphModule, data: Iterable[Any]) -> list[Sensitivity]:
    """The layers of a calibrated model by what quantizing each alone does to the outputs, the most
    sensitive first."""
    samples = [flat_inputs(prepared, *arguments_of(sample)) for sample in data]
    wanted = [_outputs(_Rounding(prepared, frozenset()), sample) for sample in samples]
    found = []
    for node, observers in layers_of(prepared):
        rounding = _Rounding(prepared, observers)
        power = difference = 0.0
        for sample, exact in zip(samples, wanted, strict=True):
            for right, rounded in zip(exact, _outputs(rounding, sample), strict=True):
                power += float(right.square().sum())
                difference += float((right - rounded).square().sum())
        operator = str(node.target).removesuffix(".default")
        found.append(
            Sensitivity(node.name, module_path(node), operator, sqnr_db(power, difference))
        )
    return sorted(found, key=lambda s: s.sqnr_db)


def layers_of(prepared: fx.GraphModule) -> list[tuple[fx.Node, frozenset[str]]]:
    """Nodes that compute with observed operands, and the observers of these and of the result."""

    def is_observer(node: fx.Node) -> bool:
        return node.op == "call_module" and isinstance(
            prepared.get_submodule(str(node.target)), Watched
        )

    layers = []
    for node in prepared.graph.nodes:
        if node.op != "call_function" or node.target in SHARING:
            continue
        before = {str(n.target) for n in node.all_input_nodes if is_observer(n)}
        if before:
            after = {str(n.target) for n in _followers(node) if is_observer(n)}
            layers.append((node, frozenset(before | after)))
    return layers


def _followers(node: fx.Node) -> list[fx.Node]:
    """What reads a result, and what reads that of a limit of it."""
    direct = list(node.users)
    return [*direct, *(after for n in direct if n.target in SHARING for after in n.users)]


class _Task:
    """One model to be quantized again and again, with other layers left float."""

    def __init__(
        self,
        exported: Any,
        samples: Sequence[Any],
        config: QuantizationConfig,
        instead: QuantizationConfig | None,
        progress: bool,
    ) -> None:
        self.exported, self.samples = exported, samples
        self.config, self.instead, self.progress = config, instead, progress

    def prepared(self, left: frozenset[str]) -> fx.GraphModule:
        quantizer = _make_quantizer(self.config, lambda node: node.name not in left)
        if self.instead is not None:
            others = _make_quantizer(self.instead, lambda node: node.name in left)
            quantizer = ComposableQuantizer([others, quantizer])
        prepared: fx.GraphModule = prepare_pt2e(deep_copy(self.exported), quantizer)
        calibrate(prepared, self.samples, progress=self.progress)
        return prepared

    def convert(self, left: frozenset[str]) -> fx.GraphModule:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of calibration: given once, with all layers
            made: fx.GraphModule = convert_pt2e(self.prepared(left))
        return made


def _fewest(
    task: _Task, layers: Sequence[Sensitivity], measure: Metric, least: float
) -> tuple[fx.GraphModule, float, Sequence[Sensitivity]]:
    """The model with the fewest of the layers left float whose metric is at least that."""
    low, high = 0, len(layers)  # `low` are too few; all of them are enough
    best: tuple[fx.GraphModule, float] | None = None
    while high - low > 1 or best is None:
        middle = min(max(2 * low, 1), high) if best is None else (low + high) // 2
        made = task.convert(frozenset(s.name for s in layers[:middle]))
        after = measure(made)
        if after >= least or middle == len(layers):
            high, best = middle, (made, after)
        else:
            low = middle
    return *best, layers[:high]


def _cosine_to(model: nn.Module, samples: Sequence[Any]) -> Metric:
    wanted = [_tensors(_call(model, sample)) for sample in samples]

    def metric(candidate: nn.Module) -> float:
        total = 0.0
        for sample, right in zip(samples, wanted, strict=True):
            found = _tensors(_call(candidate, sample))
            total += float(nn.functional.cosine_similarity(right, found, dim=0))
        return total / len(samples)

    return metric


def _call(model: nn.Module, sample: Any) -> Any:
    positional, named = arguments_of(sample)
    with torch.no_grad():
        return model(*positional, **named)


def _tensors(result: Any) -> torch.Tensor:
    """All numbers of a result in one line."""
    leaves = torch.utils._pytree.tree_leaves(result)
    return torch.cat([t.double().reshape(-1) for t in leaves if isinstance(t, torch.Tensor)])


class _Rounding(fx.Interpreter):
    """Runs a prepared model; the observers of these names round, all others do nothing."""

    def __init__(self, module: fx.GraphModule, active: frozenset[str]) -> None:
        super().__init__(module)
        self.active = active

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        observer = self.fetch_attr(target)
        if not isinstance(observer, Watched):
            return super().call_module(target, args, kwargs)
        return _rounded(observer, args[0]) if target in self.active else args[0]


def _outputs(interpreter: _Rounding, flat: Sequence[Any]) -> list[torch.Tensor]:
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(interpreter.run(*flat))
    return [t.double() for t in leaves if isinstance(t, torch.Tensor)]


def _rounded(observer: Watched, x: torch.Tensor) -> torch.Tensor:
    by_itself = getattr(observer, "rounded", None)
    if by_itself is not None:
        made: torch.Tensor = by_itself(x)
        return made
    scales, zero_points = super(Watched, observer).calculate_qparams()
    low, high = observer.quant_min, observer.quant_max
    if scales.numel() > 1:
        axis = observer.ch_axis
        return torch.fake_quantize_per_channel_affine(
            x, scales.float(), zero_points.int(), axis, low, high
        )
    return torch.fake_quantize_per_tensor_affine(x, float(scales), int(zero_points), low, high)


__all__ = ["Quantized", "Sensitivity", "layers_of", "quantize", "sensitivities", "set_quantizer"]
