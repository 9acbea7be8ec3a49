"""Functions of torch.linalg on small matrices: exported and run, they equal eager torch.

So do the errors for singular matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.errors import ExecutorchError
from executorch_py.exir import to_edge
from executorch_py.runtime import Runtime
from executorch_py.testing import assert_parity

linalg = torch.linalg


class Call(nn.Module):
    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        return [f(*inputs) for f in self.functions]


def _by_eigenvectors(a: torch.Tensor) -> Any:
    values, vectors = linalg.eigh(a)
    return values, vectors * values.unsqueeze(-2) @ vectors.mT


def _by_factors(a: torch.Tensor, b: torch.Tensor) -> Any:
    factors = linalg.lu_factor(a)
    plain, transposed = (linalg.lu_solve(*factors, b, adjoint=x) for x in (False, True))
    from_right = (linalg.lu_solve(*factors, b.mT, left=False, adjoint=x) for x in (False, True))
    return plain, transposed, *from_right, *torch.lu_unpack(*linalg.lu_factor(b))


def _by_singular_vectors(a: torch.Tensor) -> Any:
    u, s, vh = linalg.svd(a, full_matrices=False)
    return s, u * s.unsqueeze(-2) @ vh


OF_SQUARE: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda a, b: linalg.inv(a),
    lambda a, b: linalg.solve(a, b),
    lambda a, b: linalg.solve(a.mT, b[..., 0]),
    lambda a, b: linalg.solve(a, b.mT, left=False),
    lambda a, b: linalg.solve_triangular(a, b, upper=True),
    lambda a, b: (linalg.det(a), linalg.slogdet(a), torch.logdet(a)),
    lambda a, b: linalg.cholesky(a) + linalg.cholesky(a, upper=True).mT,
    lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a)),
    lambda a, b: torch.cholesky_inverse(linalg.cholesky(a)),
    lambda a, b: linalg.lu(a),
    lambda a, b: _by_factors(a.flip(-2), b),
    lambda a, b: linalg.qr(b),
    lambda a, b: linalg.matrix_power(a, -2),
    lambda a, b: (linalg.pinv(b), linalg.matrix_rank(b), linalg.cond(a)),
    lambda a, b: (linalg.matrix_norm(b, 2), linalg.matrix_norm(b, "nuc"), linalg.svdvals(b)),
    lambda a, b: _by_eigenvectors(a),
    lambda a, b: _by_singular_vectors(b),
]


def matrices(*batch: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(*batch, 4, 4, dtype=dtype, generator=generator)
    b = torch.randn(*batch, 4, 3, dtype=dtype, generator=generator)
    return a @ a.mT + 2 * torch.eye(4, dtype=dtype), b


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_models_with_functions_of_matrices_equal_eager(dtype: torch.dtype) -> None:
    assert_parity(Call(*OF_SQUARE), matrices(2, dtype=dtype))


def test_operators_with_several_results_have_scratch_memory_for_large_matrices() -> None:
    functions: list[Callable[[torch.Tensor], Any]] = [
        linalg.inv, linalg.svdvals, linalg.eigvalsh, linalg.lu, linalg.qr, linalg.slogdet,
    ]  # fmt: skip
    generator = torch.Generator().manual_seed(2)
    a = torch.randn(96, 96, dtype=torch.float64, generator=generator)
    assert_parity(Call(*functions), (a @ a.mT + torch.eye(96, dtype=torch.float64),))


def test_the_number_of_matrices_may_vary() -> None:
    class Solve(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
            return linalg.solve(a, b), linalg.det(a), linalg.svdvals(b)

    batch = torch.export.Dim("batch", min=1, max=6)
    inputs = matrices(3, dtype=torch.float32)
    assert_parity(Solve(), inputs, dynamic_shapes=({0: batch}, {0: batch}))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (linalg.inv, "linalg.inv: matrix 0 of the batch is singular"),
        (lambda a: linalg.solve(a, a), "linalg.solve: matrix 0 of the batch is singular"),
        (lambda a: linalg.cholesky(a - 9), "not positive-definite"),
    ],
)
def test_singular_matrices_are_errors_as_in_eager_torch(
    function: Callable[[torch.Tensor], Any], words: str
) -> None:
    good, bad = torch.eye(2) * 100 + 9, torch.ones(2, 2)
    program = to_edge(torch.export.export(Call(function), (good,))).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    torch.testing.assert_close(method.execute([good])[0], function(good))
    with pytest.raises(linalg.LinAlgError):
        function(bad)
    with pytest.raises(ExecutorchError, match=words):
        method.execute([bad])
