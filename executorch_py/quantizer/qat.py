"""Quantization-aware training: conv + batch norm fusion, and checks of train and eval mode.

Prepare and convert are torchao's. Around them torchao fuses batch norms by exporting and matching
patterns, which takes half a minute for any model and replaces each norm's eps and momentum by the
defaults. This module fuses node by node and keeps the norm's own numbers. The graphs are the same:
each side's convert accepts the other's prepared model.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torchao.quantization.pt2e import FakeQuantizeBase
from torchao.quantization.pt2e import quantize_pt2e as torchao_pt2e
from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec, Quantizer

from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.warn import warn_caller
from executorch_py.quantizer import fold_batch_norm
from executorch_py.quantizer.annotate import KEY, AnnotationWarning
from executorch_py.quantizer.divisors import keep_divisors
from executorch_py.quantizer.in_place import writes_in_place
from executorch_py.quantizer.observers import (
    WatchedFakeQuantize,
    names_of,
    node_name,
)
from executorch_py.quantizer.patterns import TRANSPOSED, can_fold_batch_norm
from executorch_py.quantizer.prepare import annotated, insert_observers

aten = torch.ops.aten
_MODE = "_exported_training"  # torchao's attribute for the mode of a prepared model
_DROPOUT = "dropout_p"  # attention has this share and no argument for the mode
_RENAMED = "renamed_operator"  # attribute of a function that stands for an operator
_MODE_ARGUMENTS = ("train", "training", _DROPOUT)


class TrainingModeError(RuntimeError):
    """A model to be converted whose batch norms or dropout are in training mode."""


def prepare_qat_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """The model with fake quantization of each annotated tensor, ready for training.

    model: exported from a module in training mode. `train()` and `eval()` of the result switch
    batch norms, dropout and the update of quantization ranges.
    """
    model = annotated(model, quantizer)
    for norm in list(_calls(model, aten.batch_norm.default)):
        _fuse(norm)
    model.graph.eliminate_dead_code()
    made = insert_observers(model, quantizer, is_qat=True)
    if not any(isinstance(module, FakeQuantizeBase) for module in made.modules()):
        warn_caller(
            "nothing is rounded in training: the quantizer needs a configuration for training, "
            "get_symmetric_quantization_config(is_qat=True)",
            AnnotationWarning,
        )
    return _with_modes(made)


def convert_pt2e(
    model: fx.GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> fx.GraphModule:
    """The quantized model of a prepared model that has been calibrated or trained.

    Raises CalibrationError if observers saw no data, and TrainingModeError if batch norms or
    dropout are in training mode.
    """
    if "_observed_graph_module_attrs" not in getattr(model, "meta", {}):  # torchao's mark
        raise TypeError(
            "model: expected what prepare_pt2e returns, after calibration, got a "
            f"{type(model).__name__} that is not prepared"
        )
    refuse_training(model)
    for norm in list(_calls(model, aten.batch_norm.default)):
        _fold(model, norm)
    _drop_counters(model)
    keep_divisors(model)
    for node in [*_calls(model, aten.batch_norm.default), *_writes_to_results(model)]:
        node.target = _renamed(node.target)
    made: fx.GraphModule = torchao_pt2e.convert_pt2e(
        model, use_reference_representation, fold_quantize
    )
    for node in made.graph.nodes:
        node.target = getattr(node.target, _RENAMED, node.target)
    made.recompile()
    return made


@functools.cache
def _renamed(op: OpOverload) -> Callable[..., Any]:
    """A call that torchao's convert does not know, so that it does nothing about it.

    Batch norms that stay float are not fused. Writes in place are not searched for the buffers that
    they change: the search takes time exponential in the depth of the graph.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    setattr(call, _RENAMED, op)
    fx.node.has_side_effect(call)  # so that a write without users is kept
    return call


def _writes_to_results(model: fx.GraphModule) -> list[fx.Node]:
    """Writes to values that depend on an input, which are no buffers of the model."""
    depends: dict[fx.Node, bool] = {}
    found = []
    for node in model.graph.nodes:
        depends[node] = node.op == "placeholder" or any(depends[n] for n in node.all_input_nodes)
        if writes_in_place(node) and depends[node.args[0]]:
            found.append(node)
    return found


def move_exported_model_to_eval(model: fx.GraphModule) -> fx.GraphModule:
    """Switch to evaluation in place: fixed batch norm statistics, no dropout, fixed ranges."""
    return _move(model, False)


def move_exported_model_to_train(model: fx.GraphModule) -> fx.GraphModule:
    """Switch to training in place: batch norms and ranges follow the data, dropout drops."""
    return _move(model, True)


def _move(model: fx.GraphModule, training: bool) -> fx.GraphModule:
    for node, name in _calls_with_mode(model):
        value: bool | float = training
        if name == _DROPOUT:
            dropped = node.meta.setdefault(_DROPOUT, argument(node, name))
            value = dropped if training else 0.0
        if value == argument(node, name):
            continue
        if name in node.kwargs:
            node.update_kwarg(name, value)
        else:
            names = [arg.name for arg in node.target._schema.arguments]
            node.update_arg(names.index(name), value)
    for module in model.modules():
        if isinstance(module, WatchedFakeQuantize):
            module.pause(not training)
    setattr(model, _MODE, training)
    model.recompile()
    return model


def _with_modes(model: fx.GraphModule) -> fx.GraphModule:
    """The model with `train` and `eval` methods that switch its mode."""

    def train(self: fx.GraphModule, mode: bool = True) -> fx.GraphModule:
        return _move(self, mode)

    def evaluate(self: fx.GraphModule) -> fx.GraphModule:
        return _move(self, False)

    model.train = types.MethodType(train, model)
    model.eval = types.MethodType(evaluate, model)
    return model


def _calls(model: fx.GraphModule, target: Any) -> Iterator[fx.Node]:
    return (n for n in model.graph.nodes if n.op == "call_function" and n.target is target)


def _calls_with_mode(model: fx.GraphModule) -> Iterator[tuple[fx.Node, str]]:
    """The calls that differ between training and evaluation, and the argument with the mode."""
    for node in model.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or schema.name in _WITHOUT_MODE:
            continue
        names = [a.name for a in schema.arguments]
        if "running_mean" in names and argument(node, "running_mean") is None:
            continue  # batch norms without statistics take those of the batch in both modes
        name = next((n for n in names if n in _MODE_ARGUMENTS), None)
        if name is not None:
            yield node, name


_WITHOUT_MODE = frozenset({"aten::_batch_norm_no_update", "aten::_native_batch_norm_legit"})


def refuse_training(model: fx.GraphModule) -> None:
    """Raise if a graph has batch norms or dropout in training mode."""
    calls = _calls_with_mode(model)
    found = [node for node, name in calls if argument(node, name) and _depends_on_mode(node)]
    if found:
        raise TrainingModeError(
            f"{len(found)} operators are in training mode: {names_of(map(node_name, found))}.\n"
            "Expected evaluation mode: call move_exported_model_to_eval(prepared) after training;"
            " without training, export model.eval()"
        )


def _depends_on_mode(node: fx.Node) -> bool:
    """Whether training changes the result; recurrent layers without dropout give the same."""
    names = {arg.name for arg in node.target._schema.arguments}
    return next((bool(argument(node, n)) for n in ("dropout", "p") if n in names), True)


# ---- batch norms in training


def _fuse(norm: fx.Node) -> None:
    """Scale the weights before a batch norm by gamma / deviation, and divide the result by it.

    The weights are then rounded in training as they are after conversion, which folds the norm.
    """
    conv = norm.args[0]
    if not isinstance(conv, fx.Node) or not can_fold_batch_norm(norm, conv):
        return
    weight, bias = conv.args[1], argument(conv, "bias")
    note = conv.meta.get(KEY)
    if note is None or note.input_qspec_map.get(weight) is None:
        return
    gamma, _, _, variance = norm.args[1:5]
    write = _Writer(conv)
    rank = weight.meta["val"].dim()
    deviation = write(aten.sqrt.default, write(aten.add.Tensor, variance, norm.args[7]))
    factor = write(aten.div.Tensor, gamma, deviation)
    by_weight = [-1 if d == (conv.target in TRANSPOSED) else 1 for d in range(rank)]
    by_channel = [-1 if d == 1 else 1 for d in range(rank)]
    scaled = write(aten.mul.Tensor, weight, write(aten.reshape.default, factor, by_weight))
    replacements = {weight: scaled}
    if bias is not None:
        replacements[bias] = write(aten.zeros_like.default, bias)
    _replace_operands(conv, replacements)
    write = _Writer(norm)
    whole = write(aten.div.Tensor, conv, write(aten.reshape.default, factor, by_channel))
    if bias is not None:
        whole = write(aten.add.Tensor, whole, write(aten.reshape.default, bias, by_channel))
    norm.update_arg(0, whole)


class _Writer:
    """Inserts calls before a node, with its module and with example values."""

    def __init__(self, before: fx.Node) -> None:
        self._before = before

    def __call__(self, target: Any, *args: Any) -> fx.Node:
        with self._before.graph.inserting_before(self._before):
            made = self._before.graph.call_function(target, args)
        examples = fx.map_arg(args, lambda n: n.meta["val"])
        with self._before.meta["val"].fake_mode:
            made.meta["val"] = target(*examples)
        made.meta["nn_module_stack"] = self._before.meta.get("nn_module_stack", {})
        return made


def _replace_operands(conv: fx.Node, replacements: dict[fx.Node, fx.Node]) -> None:
    """Replace operands of a call; their quantization specifications stay."""
    note = conv.meta[KEY]

    def edge(place: Any) -> Any:
        is_ours = isinstance(place, tuple) and place[1] is conv
        return (replacements.get(place[0], place[0]), conv) if is_ours else place

    specs = {}
    for operand, spec in note.input_qspec_map.items():
        if isinstance(spec, DerivedQuantizationSpec):
            spec = replace(spec, derived_from=[edge(place) for place in spec.derived_from])
        specs[replacements.get(operand, operand)] = spec
    note.input_qspec_map = specs
    for operand, other in replacements.items():
        conv.replace_input_with(operand, other)


# ---- batch norms at conversion


def _fold(model: fx.GraphModule, norm: fx.Node) -> None:
    """Fold a batch norm into weights and bias of the convolution that it was fused with."""
    parts = _Fused.of(model, norm)
    if parts is None:
        return
    folded, bias = fold_batch_norm.fold(model, norm, parts.conv, parts.weight, parts.bias)
    parts.scaled.replace_all_uses_with(folded)
    arguments = list(parts.conv.args)
    arguments[2:3] = [bias]
    parts.conv.args = tuple(arguments)
    norm.replace_all_uses_with(parts.conv)
    model.graph.erase_node(norm)
    model.graph.eliminate_dead_code()
    model.recompile()


class _Fused:
    """The nodes of a fused convolution and batch norm, written by `_fuse` or by torchao."""

    def __init__(
        self, conv: fx.Node, scaled: fx.Node, weight: fx.Node, bias: fx.Node | None
    ) -> None:
        self.conv, self.scaled, self.weight, self.bias = conv, scaled, weight, bias

    @classmethod
    def of(cls, model: fx.GraphModule, norm: fx.Node) -> _Fused | None:
        whole, bias = norm.args[0], None
        if _is(whole, aten.add.Tensor) and _is(whole.args[1], aten.reshape.default):
            whole, bias = whole.args[0], whole.args[1].args[0]
        if not _is(whole, aten.div.Tensor) or not _is_factor_of(norm, whole.args[1]):
            return None
        conv = _behind_observer(model, whole.args[0])
        if conv.op != "call_function" or len(conv.args) < 2:
            return None
        scaled = _behind_observer(model, conv.args[1])
        if not _is(scaled, aten.mul.Tensor) or not _is_factor_of(norm, scaled.args[1]):
            return None
        return cls(conv, scaled, scaled.args[0], bias)


def _is_factor_of(norm: fx.Node, reshaped: Any) -> bool:
    """Whether a value is a batch norm's gamma / sqrt(variance + eps), in any shape."""
    factor: Any = reshaped.args[0] if _is(reshaped, aten.reshape.default) else None
    if not _is(factor, aten.div.Tensor) or not _is(factor.args[1], aten.sqrt.default):
        return False
    variance = factor.args[1].args[0].args[0]
    _, gamma, _, _, norms_variance, *_ = norm.args
    return [factor.args[0].target, variance.target] == [
        getattr(n, "target", None) for n in (gamma, norms_variance)
    ]


def _is(node: Any, target: Any) -> bool:
    return isinstance(node, fx.Node) and node.target is target


def _behind_observer(model: fx.GraphModule, node: Any) -> fx.Node:
    while node.op == "call_module" and "activation_post_process" in str(node.target):
        node = node.args[0]
    found: fx.Node = node
    return found


def _drop_counters(model: fx.GraphModule) -> None:
    """Remove the batch counters of batch norms, which nothing reads after training."""
    for node in list(model.graph.nodes):
        counts = _is(node, aten.add_.Tensor) and not node.users
        if counts and str(getattr(node.args[0], "target", "")).endswith("num_batches_tracked"):
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    model.recompile()


__all__ = [
    "TrainingModeError",
    "convert_pt2e",
    "move_exported_model_to_eval",
    "move_exported_model_to_train",
    "prepare_qat_pt2e",
]
