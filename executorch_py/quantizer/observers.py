"""Observers that record statistics of their data and refuse to give a scale without any.

torchao's observers give a scale of 1 when they saw no data, which silently turns weights and
activations into zeros. The observers here count their calls and keep the range of the data. A call
of `calculate_qparams`, by `convert_pt2e` for one, checks all observers of the model at once: it
raises where no scale can be right and warns where a scale rests on too little data.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torchao.quantization.pt2e import (
    AffineQuantizedObserverBase,
    FakeQuantize,
    FakeQuantizeBase,
    HistogramObserver,
    MinMaxObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
)

from executorch_py.exir.ir.warn import warn_caller
from executorch_py.quantizer.histogram_range import range_of_least_error

MAX_NAMES = 8  # of observers in a message
FEW_STEPS = 16  # quantization steps: the values of 4 bits beside the sign


class CalibrationError(RuntimeError):
    """Observers cannot give a scale: they saw nothing, or something that is not finite."""


class CalibrationWarning(UserWarning):
    """Observers saw too little data for reliable scales."""


@dataclass
class Statistics:
    """Counts and range of the data that an observer was called with."""

    calls: int = 0
    samples: int = 0  # along the first dimension, at the first place of each run
    not_finite: int = 0  # elements that are NaN or infinite
    least: float = float("inf")
    greatest: float = float("-inf")

    def add(self, x: torch.Tensor, n_places: int) -> bool:
        """Count a tensor, and return whether it can be observed: it has elements, all finite.

        Each run of the model calls the observer at `n_places` places, which count as one sample.
        """
        if self.calls % n_places == 0:
            # The first place may be an operand of `cat` without elements.
            self.samples += max(int(x.shape[0]), 1) if x.dim() > 1 else 1
        self.calls += 1
        if x.numel() == 0:
            return False
        least, greatest = (float(v) for v in torch.aminmax(x.detach()))
        if not (abs(least) < float("inf") and abs(greatest) < float("inf")):  # NaN is in both
            self.not_finite += int((~torch.isfinite(x)).sum())
            return False
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)
        return True

    @property
    def is_empty(self) -> bool:
        return self.least > self.greatest

    @property
    def is_constant(self) -> bool:
        return self.least == self.greatest

    @property
    def most(self) -> float:
        """The largest magnitude; 0 before anything was seen."""
        return 0.0 if self.is_empty else max(abs(self.least), abs(self.greatest))


@dataclass
class ObserverSet:
    """The observers of one prepared model, with the names of the values that they observe."""

    members: list[tuple[str, Watched]] = field(default_factory=list)
    has_warned: bool = False

    def check(self) -> None:
        """Raise or warn, once for all observers."""
        _refuse("saw no data", self._names(lambda s: s.is_empty and not s.not_finite), _CALIBRATE)
        _refuse("saw NaN or infinity", self._names(lambda s: s.not_finite > 0), _FINITE)
        if self.has_warned:
            return
        self.has_warned = True
        activations = [(name, o) for name, o in self.members if not o.is_weight]
        _warn(
            "saw one sample",
            [name for name, o in activations if o.seen.samples < 2],
            "their scales fit that sample only: calibrate with more data",
        )
        _warn(
            "saw one number only",
            [name for name, o in activations if o.seen.is_constant],
            "values that differ from it by less than a quantization step become equal to it",
        )
        _warn(
            f"saw values below {FEW_STEPS} quantization steps only",
            [name for name, o in self.members if 0 < o.seen.most < FEW_STEPS * o.least_scale],
            "the values round to zero or nearly so, because the scale has a lower bound: leave"
            " such modules float with set_module_name(name, None)",
        )

    def _names(self, condition: Callable[[Statistics], bool]) -> list[str]:
        return [name for name, observer in self.members if condition(observer.seen)]


_CALIBRATE = (
    "run the prepared model on representative data before converting it:"
    " executorch_py.quantizer.calibrate(prepared, data)"
)
_FINITE = "find their origin, or leave those modules float: set_module_name(name, None)"


def names_of(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    every = list(names)
    more = len(every) - MAX_NAMES
    return ", ".join(every[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _refuse(what: str, names: list[str], remedy: str) -> None:
    if names:
        raise CalibrationError(
            f"{len(names)} observer{'s' * (len(names) > 1)} {what}: {names_of(names)}.\n"
            f"To fix it, {remedy}"
        )


def _warn(what: str, names: list[str], why: str) -> None:
    if names:
        text = f"{len(names)} observer{'s' * (len(names) > 1)} {what}: {names_of(names)}; {why}"
        warn_caller(text, CalibrationWarning)


class Watched(nn.Module):
    """Base class to put before an observer of torchao's: it counts calls and checks scales."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen = Statistics()
        self.observers = ObserverSet()
        self.is_weight = False
        self.is_observing = False
        self.n_places = 1  # calls of it in the graph

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._observes() and not self.seen.add(x, self.n_places):
            return x
        self.is_observing = True
        try:
            observed: torch.Tensor = super().forward(x)
        finally:
            self.is_observing = False
        return observed

    def _observes(self) -> bool:
        enabled = getattr(self, "observer_enabled", None)
        return enabled is None or bool(enabled[0])

    @property
    def least_scale(self) -> float:
        """The lower bound of the scale, for data however small; 0 if there is none."""
        inner = getattr(self, "activation_post_process", self)
        return float(getattr(inner, "eps", None) or 0.0)

    def get_extra_state(self) -> dict[str, Any]:
        return dataclasses.asdict(self.seen)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.seen = Statistics(**state)

    def calculate_qparams(self) -> Any:
        if self.is_observing:  # torchao's own, to round by what it has seen so far
            return super().calculate_qparams()
        # torchao's ComposableQuantizer calls no `watch`: the observer then checks itself alone.
        alone = ObserverSet([(type(self).__name__, self)], has_warned=True)
        (self.observers if self.observers.members else alone).check()
        return super().calculate_qparams()


class WatchedHistogram(Watched, HistogramObserver):
    """Histogram observer of activations; its range is the one of least rounding error."""

    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = range_of_least_error(self.histogram, self._compute_quantization_error)
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * start, self.min_val + width * (end + 1)


class WatchedRange(Watched, MinMaxObserver):
    """Observer of weights with one scale for the whole tensor."""


# torchao passes the axis of a weight's channels only to classes with "PerChannel" in their names.
# Without it, a transposed convolution's scales would be those of its input channels.


class WatchedPerChannel(Watched, PerChannelMinMaxObserver):
    """Observer of weights with one scale per channel."""


class WatchedFakeQuantize(Watched, FakeQuantize):
    """Fake quantization for training: rounds like the converted model, with a moving range.

    torch's fused operator for this is not used. Without a zero point its scales differ from those
    of `convert_pt2e` (for -127 … 127 by 255 / 254, and they have no lower bound), so that weights
    would be trained for other integers than they become.
    """

    is_paused = False

    def pause(self, evaluating: bool) -> None:
        """Keep the range during evaluation, once there is one, and resume observing afterwards.

        An observer that was disabled elsewhere stays disabled.
        """
        if evaluating and self._observes() and not self.seen.is_empty:
            self.disable_observer()
            self.is_paused = True
        elif not evaluating and self.is_paused:
            self.enable_observer()
            self.is_paused = False


class WatchedPerChannelFakeQuantize(WatchedFakeQuantize):
    """Fake quantization of weights with one scale per channel."""


def watch(observers: dict[Any, Any]) -> None:
    """Connect the observers of a model, and name the values that they observe.

    observers: by edge (operand, reader) or node, as torchao's prepare hands them to quantizers.
    """
    every = ObserverSet()
    named: set[int] = set()
    for place, observer in observers.items():
        if not isinstance(observer, Watched) or id(observer) in named:
            continue
        named.add(id(observer))
        node = place[0] if isinstance(place, tuple) else place
        observer.observers = every
        observer.is_weight = is_constant(node)
        every.members.append((place_name(place), observer))


def count_places(prepared: fx.GraphModule) -> None:
    """Set in the observers of a model how often the graph calls each, and forget uncalled ones.

    torchao inserts no observer of a buffer that a call changes in place.
    """
    calls = [n for n in prepared.graph.nodes if n.op == "call_module"]
    counts = Counter(prepared.get_submodule(str(n.target)) for n in calls)
    for module, count in counts.items():
        if isinstance(module, Watched):
            module.n_places = count
            every = module.observers
            every.members[:] = [(name, o) for name, o in every.members if o in counts]


def place_name(place: fx.Node | tuple[fx.Node, fx.Node]) -> str:
    """The name of an edge or node: `conv1.weight`, `x -> linear (first)`."""
    if not isinstance(place, tuple):
        return node_name(place)
    operand, reader = place
    return node_name(operand) if is_constant(operand) else f"{operand.name} -> {node_name(reader)}"


def constant_of(node: fx.Node, most: int = 8) -> fx.Node | None:
    """The constant behind a value that at most `most` calls compute from constants alone."""
    if node.op == "get_attr":
        return node
    if node.op != "call_function" or not node.all_input_nodes or not most:
        return None
    first = None
    for source in node.all_input_nodes:
        found = constant_of(source, most - 1)
        if found is None:
            return None
        first = first or found
    return first


def is_constant(node: fx.Node) -> bool:
    """Whether a value depends on no input of the graph, as weights do."""
    return constant_of(node) is not None


def node_name(node: fx.Node) -> str:
    """The name of a value for messages: `conv1.weight`, or `conv2d_3 (layer1.0.conv2)`."""
    constant = constant_of(node)
    if constant is not None:
        return str(constant.target)
    path = module_path(node)
    return f"{node.name} ({path})" if path else node.name


def module_path(node: fx.Node) -> str:
    """The path of the module that a node comes from, as in `named_modules`; empty if unknown."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def has_observers(prepared: nn.Module) -> bool:
    """Whether a model has observers or fake quantization, of any quantizer."""
    return any(
        isinstance(m, (Watched, ObserverBase, FakeQuantizeBase, AffineQuantizedObserverBase))
        for m in prepared.modules()
    )


def observers_of(prepared: nn.Module) -> Iterator[tuple[str, Watched]]:
    """The observers of this module in a prepared model, with the names of their values."""
    sets = {id(m.observers): m.observers for m in prepared.modules() if isinstance(m, Watched)}
    for every in sets.values():
        yield from every.members
