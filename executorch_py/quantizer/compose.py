"""Several quantizers for one model, each for what those before it left."""

from __future__ import annotations

from typing import Any

from torch import fx
from torchao.quantization.pt2e.quantizer import ComposableQuantizer as _Composed

from executorch_py.quantizer.groups import connect
from executorch_py.quantizer.observers import watch


class ComposableQuantizer(_Composed):
    """torchao's, which asks every quantizer what it has against the annotations, and whose
    observers know of each other as those of one quantizer do."""

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
