"""The symmetric int8 quantizer, under upstream's name.

torchao ships the same quantizer, once moved out of it; this module adds what that copy lacks, and
keeps its notice of having moved away from the user.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import fx

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchao.testing.pt2e import _xnnpack_quantizer as _torchao

NodeFilter = Callable[[fx.Node], bool]

get_symmetric_quantization_config = _torchao.get_symmetric_quantization_config


class XNNPACKQuantizer(_torchao.XNNPACKQuantizer):
    """Marks convolutions, linear layers, sums, products and what follows them for quantization."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deprecated.*")
            super().__init__()
        self.filter_fn: NodeFilter | None = None

    def set_filter_function(self, filter_fn: NodeFilter) -> XNNPACKQuantizer:
        """Quantize only nodes that `filter_fn` says yes to."""
        self.filter_fn = filter_fn
        return self

    def _chosen(self, other: NodeFilter | None) -> NodeFilter | None:
        mine = self.filter_fn
        if mine is None or other is None:
            return mine or other
        return lambda node: mine(node) and other(node)

    def _annotate_all_static_patterns(
        self, model: fx.GraphModule, config: Any, filter_fn: NodeFilter | None = None
    ) -> Any:
        return super()._annotate_all_static_patterns(model, config, self._chosen(filter_fn))

    def _annotate_all_dynamic_patterns(
        self, model: fx.GraphModule, config: Any, filter_fn: NodeFilter | None = None
    ) -> Any:
        return super()._annotate_all_dynamic_patterns(model, config, self._chosen(filter_fn))


__all__ = ["XNNPACKQuantizer", "get_symmetric_quantization_config"]
