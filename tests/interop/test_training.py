"""Training programs: loss and gradients of a convolutional classifier, on both runtimes."""

from __future__ import annotations

import pytest
import torch

from executorch_py.exir import to_edge
from interop.training import expected, inputs, joint


@pytest.mark.parametrize("pool", [False, True], ids=["strided", "pooled"])
def test_loss_and_gradients_of_a_convolution_equal_eager(pool: bool) -> None:
    outputs = to_edge(joint(pool)).to_executorch().run(*inputs())
    torch.testing.assert_close(outputs, expected(pool)[0], rtol=1e-4, atol=1e-5)
