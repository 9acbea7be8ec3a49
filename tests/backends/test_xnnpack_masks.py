"""Masks of attention behind the partitioner: rows that see nothing, of lengths that vary, are what
eager torch makes of them.
"""

from __future__ import annotations

import math

import torch
from backends.xnnpack_cases import Call, data
from torch import Tensor
from torch.export import Dim, export
from torch.nn.functional import scaled_dot_product_attention

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import EdgeProgramManager, to_edge_transform_and_lower


def lowered(function: object, inputs: tuple[Tensor, ...], dynamic: object) -> EdgeProgramManager:
    exported = export(Call(function), inputs, dynamic_shapes=dynamic)  # type: ignore[arg-type]
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])


def queries(length: int) -> Tensor:
    return data(2, 3, length, 4)


def seen(length: int) -> Tensor:
    """Keys that each query sees: none in the second sequence, the first one in the first."""
    mask = data(2, 1, length, length) > 0
    mask[0, :, :, 0], mask[1, :, 1] = True, False
    return mask


def attend_twice(q: Tensor, mask: Tensor) -> Tensor:
    for _ in range(2):
        q = q + scaled_dot_product_attention(q, q, q, attn_mask=mask)
    return q


def test_queries_that_see_no_key_get_zeros() -> None:
    length = Dim("length", min=3, max=8)
    manager = lowered(attend_twice, (queries(6), seen(6)), (({2: length}, {2: length, 3: length}),))
    assert len(manager.delegation_summary().delegates) == 1
    method = manager.to_executorch()
    for n in (6, 8, 3):
        found = method.run(queries(n), seen(n))
        torch.testing.assert_close(found, attend_twice(queries(n), seen(n)))


def test_a_softmax_over_nothing_is_no_number() -> None:
    def attend(q: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ q.transpose(-1, -2) + mask, -1) @ q

    inputs = queries(6), torch.zeros(2, 1, 6, 6).masked_fill(~seen(6), -math.inf)
    found = lowered(attend, inputs, None).to_executorch().run(*inputs)
    torch.testing.assert_close(found, attend(*inputs), equal_nan=True)
    assert found.isnan().any()
