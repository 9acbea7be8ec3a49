"""Preparation for calibration: batch norms are folded, calls annotated, observers inserted.

torchao inserts the observers. Folding, which torchao's prepare_pt2e does before that, is done by
fold_batch_norm.py, because a layer may have several readers or norms. Models that were not exported
or are prepared already raise an error.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e.prepare import prepare
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.quantization.pt2e.utils import _disallow_eval_train

from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.warn import warn_caller
from executorch_py.quantizer import fold_batch_norm
from executorch_py.quantizer.annotate import AnnotationWarning
from executorch_py.quantizer.in_place import keep_writes
from executorch_py.quantizer.observers import (
    count_places,
    has_observers,
    module_path,
    names_of,
    node_name,
)

aten = torch.ops.aten
_BODIES = {torch.ops.higher_order.scan: 0, torch.ops.higher_order.while_loop: 1}


def prepare_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """The model with observers for each annotation of the quantizer, ready for calibration.

    model: `torch.export.export(model.eval(), inputs).module()`, whose batch norms are folded into
    its weights.
    """
    if not isinstance(model, fx.GraphModule):
        raise TypeError(
            "model: expected torch.export.export(model, inputs).module(), "
            f"got a {type(model).__name__}"
        )
    check_quantizer(quantizer)
    if has_observers(model):
        raise ValueError("model: expected an exported model, got one that has observers already")
    training = {n.name: node_name(n) for n in model.graph.nodes if _is_norm_in_training(n)}
    fold_batch_norm.fold_all(model)
    left = {n.name for n in model.graph.nodes}
    folded = [name for norm, name in training.items() if norm not in left]
    if folded:
        warn_caller(
            f"the model was exported in training mode: {names_of(folded)} became part of weights, "
            "with the statistics of evaluation; export model.eval() instead",
            AnnotationWarning,
        )
    made = insert_observers(annotated(model, quantizer), quantizer, is_qat=False)
    made = _disallow_eval_train(made)
    for node in list(made.graph.nodes):
        if node.target in _BODIES:
            name = str(node.args[_BODIES[node.target]].target)
            setattr(made, name, prepare_pt2e(made.get_submodule(name), quantizer))
    return made


def check_quantizer(quantizer: Any) -> None:
    """Refuse what is no quantizer object, its class among that."""
    if hasattr(quantizer, "annotate") and not isinstance(quantizer, type):
        return
    call = f"; call it: {quantizer.__name__}()" if isinstance(quantizer, type) else ""
    raise TypeError(f"quantizer: expected a Quantizer object, got {quantizer!r}{call}")


def annotated(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """The model after the quantizer's transformation, annotation and validation."""
    keep_writes(model)
    model = quantizer.transform_for_annotation(model)
    quantizer.annotate(model)
    quantizer.validate(model)
    return model


def insert_observers(model: fx.GraphModule, quantizer: Quantizer, is_qat: bool) -> fx.GraphModule:
    """The annotated model with the observers or fake quantization of its annotations."""
    scopes = {node.name: _scope(node) for node in model.graph.nodes}
    callback = quantizer.prepare_obs_or_fq_callback
    made: fx.GraphModule = prepare(model, scopes, is_qat=is_qat, obs_or_fq_callback=callback)
    made.meta.update(model.meta)
    count_places(made)
    return made


def _scope(node: fx.Node) -> tuple[str, Any]:
    """The name and class of a node's module, as torchao's prepare expects them."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return (module_path(node).rpartition(".")[2], stack[-1][1]) if stack else ("", type(None))


def _is_norm_in_training(node: fx.Node) -> bool:
    return node.target is aten.batch_norm.default and bool(argument(node, "training"))


__all__ = ["annotated", "insert_observers", "prepare_pt2e"]
