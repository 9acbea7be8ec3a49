"""`preprocess::tile_crop`, which cuts an image into tiles, registered with torch on import."""

from __future__ import annotations

import torch

from executorch_py.extension.llm.custom_ops.registry import Operator, register


def tile_crop(input: torch.Tensor, tile_size: int) -> torch.Tensor:
    """Tiles of an image row by row: [channel, y, x] to [tile, channel, y, x]."""
    torch._check(
        input.dim() == 3 and input.size(1) % tile_size == 0 and input.size(2) % tile_size == 0,
        lambda: (
            f"expected an image of rank 3 with height and width in multiples of {tile_size}, got "
            f"{tuple(input.shape)}"
        ),
    )
    tiles = input.unflatten(2, (-1, tile_size)).unflatten(1, (-1, tile_size))
    return tiles.permute(1, 3, 0, 2, 4).flatten(0, 1).contiguous()


register(
    Operator("tile_crop", "Tensor input, int tile_size", "out", tile_crop, tile_crop, "preprocess")
)
