"""Composition of quantizers: the first that annotates a node decides about it."""

from __future__ import annotations

from typing import Any

from torch import fx
from torchao.quantization.pt2e.quantizer import ComposableQuantizer as TorchaoComposableQuantizer

from executorch_py.quantizer.groupwise import connect
from executorch_py.quantizer.observers import watch


class ComposableQuantizer(TorchaoComposableQuantizer):
    """Several quantizers as one, in order: `ComposableQuantizer([first, second])`.

    The first quantizer that annotates a node decides about it. Unlike torchao's class, which calls
    no `validate`, this one lets each quantizer validate the whole model, so that a target's
    quantizer also refuses annotations of the others that the target cannot compute. The observers
    of all of them are watched together.
    """

    def validate(self, model: fx.GraphModule) -> None:
        for quantizer in self.quantizers:
            quantizer.validate(model)

    def prepare_obs_or_fq_callback(
        self, model: fx.GraphModule, edge_or_node_to_obs_or_fq: dict[Any, Any]
    ) -> None:
        for quantizer in self.quantizers:
            quantizer.prepare_obs_or_fq_callback(model, edge_or_node_to_obs_or_fq)
        watch(edge_or_node_to_obs_or_fq)
        connect(edge_or_node_to_obs_or_fq)


__all__ = ["ComposableQuantizer"]
