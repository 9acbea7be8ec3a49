"""Mixed precision: the fewest, most sensitive layers stay float so that a metric is kept."""

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
from executorch_py.exir.settings_check import is_number
from executorch_py.exir.trace_errors import readable_errors
from executorch_py.quantizer.calibrate import arguments_of, calibrate, sample_problem, samples_of
from executorch_py.quantizer.composable_quantizer import ComposableQuantizer
from executorch_py.quantizer.observers import CalibrationError, Watched, module_path
from executorch_py.quantizer.patterns import SHARING, NodeFilter
from executorch_py.quantizer.prepare import prepare_pt2e
from executorch_py.quantizer.qat import convert_pt2e, refuse_training
from executorch_py.quantizer.spec import QuantizationConfig, get_symmetric_quantization_config
from executorch_py.quantizer.sqnr import flat_inputs, sqnr_db

Metric = Callable[[nn.Module], float]
# Type of a function: a target's quantizer for a configuration and a filter of nodes.
MakeQuantizer = Callable[[QuantizationConfig, NodeFilter], Quantizer]
PROBES = 8  # samples that sensitivities are measured with

_make_quantizer: MakeQuantizer


def set_quantizer(make: MakeQuantizer) -> None:
    """Set the quantizer of `quantize`; the package does so, because this module names no target."""
    global _make_quantizer
    _make_quantizer = make


@dataclass(frozen=True)
class Sensitivity:
    """The SQNR of the model's outputs when one layer alone is quantized."""

    name: str
    module: str
    operator: str
    sqnr_db: float


@dataclass(frozen=True)
class Quantized:
    """The result of `quantize`.

    module: the converted model, to be exported. before, after: the metric of the float and of the
    quantized model. left_float: layers that stayed float, or have the configuration `instead`, the
    most sensitive first. n_layers: the number of quantizable layers.
    """

    module: fx.GraphModule
    before: float
    after: float
    left_float: Sequence[Sensitivity]
    n_layers: int
    instead: QuantizationConfig | None = None

    def __str__(self) -> str:
        what = "quantized" if self.instead is None else "quantized by config"
        lines = [
            f"metric {self.before:.4g} -> {self.after:.4g}, {self.before - self.after:.2g} lost;"
            f" {self.n_layers - len(self.left_float)} of {self.n_layers} layers {what}"
        ]
        left = "left float" if self.instead is None else "quantized by instead"
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

    data: samples as for `calibrate`; the model is calibrated on all of them. metric: a function
    that takes a model, called like the given one and without gradients, and returns a number, the
    greater the better. Without it, the metric is the mean cosine between the outputs and the float
    model's over the data. config: by default int8 with a scale for each channel of weights.
    instead: a configuration for the most sensitive layers, which otherwise stay float; 8 bits, for
    example, where `config` has 4. Bisection finds the fewest such layers.

    Raises ValueError when the metric of the float model is not finite, and TrainingModeError when
    batch norms or dropout of the model are in training mode.
    """
    if not is_number(max_drop) or not max_drop >= 0:
        raise ValueError(f"max_drop: expected a number that is not negative, got {max_drop!r}")
    samples = list(samples_of(data))
    if not samples:
        raise ValueError("data: expected at least one sample to quantize with, got none")
    if not (metric is None or callable(metric)):
        raise TypeError(f"metric: expected a function of a model, got {metric!r}")
    positional, named = arguments_of(samples[0])
    problem = sample_problem(model, positional, named)
    if problem:
        raise CalibrationError(f"sample 0: {problem}")
    with readable_errors():
        program = torch.export.export(model, positional, named, dynamic_shapes=dynamic_shapes)
    exported = program.module()
    refuse_training(exported)
    rate = metric if metric is not None else _cosine_to(model, samples)

    def measure(candidate: nn.Module) -> float:
        with torch.no_grad():
            return float(rate(candidate))

    config = config or get_symmetric_quantization_config(True)
    task = _Task(exported, samples, config, instead, progress)
    before = measure(model)
    if not math.isfinite(before):
        raise ValueError(f"metric of the float model: expected a finite number, got {before}")
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
    """The layers of a calibrated model, the most sensitive first.

    A layer's sensitivity is the SQNR of the outputs when that layer alone is quantized.
    """
    samples = [flat_inputs(prepared, *arguments_of(sample)) for sample in samples_of(data)]
    wanted = [_outputs(_FakeQuantized(prepared, frozenset()), sample) for sample in samples]
    found = []
    for node, observers in layers_of(prepared):
        rounding = _FakeQuantized(prepared, observers)
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
    """The nodes with observed operands, each with the observers of its operands and result."""

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
            after = {str(n.target) for n in _readers(node) if is_observer(n)}
            layers.append((node, frozenset(before | after)))
    return layers


def _readers(node: fx.Node) -> list[fx.Node]:
    """The readers of a node's result, directly or behind an operator that moves or clamps it."""
    direct = list(node.users)
    return [*direct, *(after for n in direct if n.target in SHARING for after in n.users)]


class _Task:
    """One exported model, quantized repeatedly with different layers left float."""

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
        """The calibrated model, with the nodes of these names left float."""
        quantizer = _make_quantizer(self.config, lambda node: node.name not in left)
        if self.instead is not None:
            others = _make_quantizer(self.instead, lambda node: node.name in left)
            quantizer = ComposableQuantizer([others, quantizer])
        prepared: fx.GraphModule = prepare_pt2e(deep_copy(self.exported), quantizer)
        calibrate(prepared, self.samples, progress=self.progress)
        return prepared

    def convert(self, left: frozenset[str]) -> fx.GraphModule:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # calibration warned once, with all layers quantized
            made: fx.GraphModule = convert_pt2e(self.prepared(left))
        return made


def _fewest(
    task: _Task, layers: Sequence[Sensitivity], measure: Metric, least: float
) -> tuple[fx.GraphModule, float, Sequence[Sensitivity]]:
    """The model with the fewest layers left float whose metric is at least `least`."""
    low, high = 0, len(layers)  # the first `low` layers are too few, the first `high` are enough
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
    """All tensors of a result, flattened and concatenated."""
    leaves = torch.utils._pytree.tree_leaves(result)
    return torch.cat([t.double().reshape(-1) for t in leaves if isinstance(t, torch.Tensor)])


class _FakeQuantized(fx.Interpreter):
    """Runs a prepared model; the observers of these names round, the others pass values through."""

    def __init__(self, module: fx.GraphModule, active: frozenset[str]) -> None:
        super().__init__(module)
        self.active = active

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        observer = self.fetch_attr(target)
        if not isinstance(observer, Watched):
            return super().call_module(target, args, kwargs)
        return _rounded(observer, args[0]) if target in self.active else args[0]


def _outputs(interpreter: _FakeQuantized, flat: Sequence[Any]) -> list[torch.Tensor]:
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
