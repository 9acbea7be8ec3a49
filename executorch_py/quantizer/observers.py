"""Observers that know what they were shown, so that no scale is made from nothing.

torchao's observers give a scale of 1 when they saw no data, which turns weights and activations
into zeros without a word. Those here remember how often they were called and what with. Whoever
asks one of them for its scale, `convert_pt2e` among them, is told of all of the model's at once:
an error where no scale can be right, a warning where one is in doubt.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
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

MOST_NAMES = 8  # of observers in a message
FEW_QUANTA = 16  # what 4 bits and a sign tell apart


class CalibrationError(RuntimeError):
    """Observers cannot give a scale: they saw nothing, or something that is not finite."""


class CalibrationWarning(UserWarning):
    """Observers saw too little to be sure of their scales."""


@dataclass
class Seen:
    """What an observer was shown."""

    calls: int = 0
    samples: int = 0  # along the first dimension, at the first place of each run
    not_finite: int = 0  # elements that are NaN or infinite
    least: float = float("inf")
    greatest: float = float("-inf")

    def add(self, x: torch.Tensor, n_places: int) -> bool:
        """Note a tensor; whether it can be observed. A run shows as many as there are places."""
        if self.calls % n_places == 0:
            self.samples += int(x.shape[0]) if x.dim() > 1 else 1
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
class Group:
    """The observers of one prepared model, by the name of what they observe."""

    members: list[tuple[str, Watched]] = field(default_factory=list)
    was_told: bool = False

    def check(self) -> None:
        """Raise or warn, once for all observers."""
        _refuse("saw no data", self._which(lambda s: s.is_empty and not s.not_finite), _CALIBRATE)
        _refuse("saw NaN or infinity", self._which(lambda s: s.not_finite > 0), _FINITE)
        if self.was_told:
            return
        self.was_told = True
        _doubt(
            "saw one sample",
            [name for name, o in self.members if not o.is_weight and o.seen.samples < 2],
            "their scales fit nothing else: calibrate with more",
        )
        _doubt(
            "saw one number only",
            [name for name, o in self.members if not o.is_weight and o.seen.is_constant],
            "nothing is left of what differs from it by less than a quantum",
        )
        _doubt(
            f"saw no number as large as {FEW_QUANTA} times their least scale",
            [name for name, o in self.members if 0 < o.seen.most < FEW_QUANTA * o.least_scale],
            "they become zero or nearly so: leave such modules float, set_module_name(name, None)",
        )

    def _which(self, condition: Any) -> list[str]:
        return [name for name, observer in self.members if condition(observer.seen)]


_CALIBRATE = (
    "run the prepared model on data like that which it will be used with, then convert:"
    " executorch_py.quantizer.calibrate(prepared, data)"
)
_FINITE = "find where they come from, or leave those modules float: set_module_name(name, None)"


def names_of(names: Iterable[str]) -> str:
    """Some names and how many more there are."""
    every = list(names)
    more = len(every) - MOST_NAMES
    return ", ".join(every[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _refuse(what: str, names: list[str], remedy: str) -> None:
    if names:
        raise CalibrationError(
            f"{len(names)} observer{'s' * (len(names) > 1)} {what}: {names_of(names)}.\nNeeded: "
            f"{remedy}"
        )


def _doubt(what: str, names: list[str], why: str) -> None:
    if names:
        text = f"{len(names)} observer{'s' * (len(names) > 1)} {what}: {names_of(names)}; {why}"
        warn_caller(text, CalibrationWarning)


class Watched(nn.Module):
    """Mixed in before an observer of torchao's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen = Seen()
        self.group = Group()
        self.is_weight = False
        self.is_observing = False
        self.n_places = 1  # of the graph that call it in each run

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
        """What a scale is at least, however small the numbers; 0 if nothing says so."""
        inner = getattr(self, "activation_post_process", self)
        return float(getattr(inner, "eps", None) or 0.0)

    def get_extra_state(self) -> dict[str, Any]:
        return dataclasses.asdict(self.seen)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.seen = Seen(**state)

    def calculate_qparams(self) -> Any:
        if self.is_observing:  # torchao's own, to round by what it has seen so far
            return super().calculate_qparams()
        # Nobody may have told it of the others: torchao's ComposableQuantizer does not.
        alone = Group([(type(self).__name__, self)], was_told=True)
        (self.group if self.group.members else alone).check()
        return super().calculate_qparams()


class WatchedHistogram(Watched, HistogramObserver):
    """Of activations: the range that loses least, by a histogram."""

    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = range_of_least_error(self.histogram, self._compute_quantization_error)
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * start, self.min_val + width * (end + 1)


class WatchedRange(Watched, MinMaxObserver):
    """Of weights, one scale."""


# torchao tells the axis of a weight's channels to those classes only that have "PerChannel" in
# their names; without, a transposed convolution's scales would be of its input channels.


class WatchedPerChannel(Watched, PerChannelMinMaxObserver):
    """Of weights, one scale a channel."""


class WatchedFakeQuantize(Watched, FakeQuantize):
    """While training: rounds as the quantized model will, by a range that moves with the data.

    torch's fused operator for this is not used: where there is no zero point its scales are others
    (-127 … 127 are 255 / 254 of what `convert_pt2e` gives, and nothing is the least scale), so that
    weights would be trained for integers they do not become.
    """

    is_paused = False

    def pause(self, evaluating: bool) -> None:
        """Keep the range while the model is evaluated, once there is one; what was not paused here
        does not go on here either."""
        if evaluating and self._observes() and not self.seen.is_empty:
            self.disable_observer()
            self.is_paused = True
        elif not evaluating and self.is_paused:
            self.enable_observer()
            self.is_paused = False


class WatchedPerChannelFakeQuantize(WatchedFakeQuantize):
    """The same for weights, one scale a channel."""


def watch(observers: dict[Any, Any]) -> None:
    """Tell the observers of a model of each other and of what they observe: by edge or node."""
    group = Group()
    named: set[int] = set()
    for place, observer in observers.items():
        if not isinstance(observer, Watched) or id(observer) in named:
            continue
        named.add(id(observer))
        node = place[0] if isinstance(place, tuple) else place
        observer.group = group
        observer.is_weight = is_constant(node)
        group.members.append((place_name(place), observer))


def count_places(prepared: fx.GraphModule) -> None:
    """Tell the observers of a model from how many places each is called."""
    calls = [n for n in prepared.graph.nodes if n.op == "call_module"]
    counts = Counter(prepared.get_submodule(str(n.target)) for n in calls)
    for module, count in counts.items():
        if isinstance(module, Watched):
            module.n_places = count


def place_name(place: fx.Node | tuple[fx.Node, fx.Node]) -> str:
    """`conv1.weight` of a constant, `conv2d_3 (layer1.0.conv2)` of a result."""
    if not isinstance(place, tuple):
        return node_name(place)
    operand, reader = place
    return node_name(operand) if is_constant(operand) else f"{operand.name} -> {node_name(reader)}"


def constant_of(node: fx.Node, most: int = 8) -> fx.Node | None:
    """The constant that a value is, or was before a few calls with other constants changed it."""
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
    """Whether a value depends on no input, as weights do."""
    return constant_of(node) is not None


def node_name(node: fx.Node) -> str:
    """`conv1.weight` of a constant, `conv2d_3 (layer1.0.conv2)` of another value."""
    constant = constant_of(node)
    if constant is not None:
        return str(constant.target)
    path = module_path(node)
    return f"{node.name} ({path})" if path else node.name


def module_path(node: fx.Node) -> str:
    """The module that a node comes from, as `named_modules` has it; empty if it is not known."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def has_observers(prepared: nn.Module) -> bool:
    """Whether anything in a model was put there to observe, by whichever quantizer."""
    return any(
        isinstance(m, (Watched, ObserverBase, FakeQuantizeBase, AffineQuantizedObserverBase))
        for m in prepared.modules()
    )


def observers_of(prepared: nn.Module) -> Iterator[tuple[str, Watched]]:
    """The watched observers of a prepared model with the names of what they observe."""
    groups = {id(m.group): m.group for m in prepared.modules() if isinstance(m, Watched)}
    for group in groups.values():
        yield from group.members
