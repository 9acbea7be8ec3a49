"""Preparing for calibration: norms folded, calls annotated, observers put in.

Observers are put in by torchao; what its own prepare_pt2e does before that, folding norms, is done
by fold_batch_norm.py, which tells readers and norms of one layer apart. A model that was not
exported, or is prepared already, is refused.
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
    """An exported model with observers where the quantizer says, to be calibrated.

    model: `torch.export.export(model.eval(), inputs).module()`; norms become part of its weights.
    """
    if not isinstance(model, fx.GraphModule):
        raise TypeError(
            f"model is a {type(model).__name__}: needs torch.export.export(model, inputs).module()"
        )
    if has_observers(model):
        raise ValueError("the model has observers already: prepare what was exported, once")
    training = {n.name: node_name(n) for n in model.graph.nodes if _is_norm_in_training(n)}
    fold_batch_norm.fold_all(model)
    left = {n.name for n in model.graph.nodes}
    folded = [name for norm, name in training.items() if norm not in left]
    if folded:
        warn_caller(
            f"the model was exported in training mode: {names_of(folded)} became part of weights "
            "by what they learnt before, which is what model.eval() does; export that",
            AnnotationWarning,
        )
    made = put_observers(annotated(model, quantizer), quantizer, is_qat=False)
    made = _disallow_eval_train(made)
    for node in list(made.graph.nodes):
        if node.target in _BODIES:
            name = str(node.args[_BODIES[node.target]].target)
            setattr(made, name, prepare_pt2e(made.get_submodule(name), quantizer))
    return made


def annotated(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """The model, as the quantizer transformed and annotated it."""
    model = quantizer.transform_for_annotation(model)
    quantizer.annotate(model)
    quantizer.validate(model)
    return model


def put_observers(model: fx.GraphModule, quantizer: Quantizer, is_qat: bool) -> fx.GraphModule:
    """An annotated model with what its annotations ask for."""
    scopes = {node.name: _scope(node) for node in model.graph.nodes}
    callback = quantizer.prepare_obs_or_fq_callback
    made: fx.GraphModule = prepare(model, scopes, is_qat=is_qat, obs_or_fq_callback=callback)
    made.meta.update(model.meta)
    count_places(made)
    return made


def _scope(node: fx.Node) -> tuple[str, Any]:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return (module_path(node).rpartition(".")[2], stack[-1][1]) if stack else ("", type(None))


def _is_norm_in_training(node: fx.Node) -> bool:
    return node.target is aten.batch_norm.default and bool(argument(node, "training"))


__all__ = ["annotated", "prepare_pt2e", "put_observers"]
