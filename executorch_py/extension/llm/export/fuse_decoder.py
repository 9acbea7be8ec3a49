"""A captured decoder for this project's runtime: what its operators compute is fused.

This comes before decompositions, whose time grows with the number of nodes.
"""

from __future__ import annotations

from torch.fx import GraphModule

from executorch_py.exir.passes.fuse.fuse_rms_norm import fuse_rms_norms
from executorch_py.extension.llm.export.identities import drop_identities
from executorch_py.extension.llm.export.last_position import keep_last_position
from executorch_py.extension.llm.export.residual import fuse_residuals
from executorch_py.extension.llm.export.rotary import fuse_rotary
from executorch_py.extension.llm.export.split_products import split_products
from executorch_py.extension.llm.export.transposes import cancel_transposes


def fuse_decoder(module: GraphModule) -> None:
    """Fuses rotary embeddings, normalizations and residuals, and computes the last layer for the
    positions of the logits."""
    drop_identities(module)
    split_products(module)
    fuse_rotary(module)
    fuse_rms_norms(module.graph)
    cancel_transposes(module)
    fuse_residuals(module)
    keep_last_position(module)
