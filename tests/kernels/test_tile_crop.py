"""Image tiles against their definition in eager torch."""

from __future__ import annotations

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op

import executorch_py.extension.llm.custom_ops.op_tile_crop_aot  # noqa: F401


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_images_are_cut_into_tiles(dtype: torch.dtype) -> None:
    x = torch.arange(3 * 8 * 12).reshape(3, 8, 12).to(dtype)
    check_op(torch.ops.preprocess.tile_crop.out, x, 4)
    check_op(torch.ops.preprocess.tile_crop.out, x.permute(2, 0, 1)[:8].contiguous(), 1)
    with pytest.raises(OpError, match="8 × 12 pixels do not divide into tiles of 5"):
        run_op("preprocess::tile_crop.out", x, 5, out=[Out(dtype, (1, 3, 5, 5))])
