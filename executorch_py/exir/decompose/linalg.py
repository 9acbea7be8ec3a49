"""Decompositions of linear algebra into factorizations that have kernels, and singularity checks.

`keep_singular_checks` turns torch's separate checks for singular matrices into arguments of the
operators that find them. Rules know nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.op_traits import higher_order_name, is_getitem

_aten = torch.ops.aten


def _triangular(a: Tensor, b: Tensor, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper)


def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mT if upper else factor
    return _triangular(lower.mT, _triangular(lower, b, False), True)


def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return _cholesky_solve(identity.expand_as(factor), factor, upper)


def _cholesky(a: Tensor, upper: bool = False) -> Tensor:
    factor: Tensor = _aten.linalg_cholesky_ex.default(a, upper=upper, check_errors=True)[0]
    return factor


def _pinv(a: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The pseudoinverse by singular values, also of symmetric matrices; small values count as 0."""
    if rtol is None:
        rtol = torch.finfo(a.dtype).eps * max(a.shape[-2:]) if atol is None else 0.0
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    largest = s.amax(-1, keepdim=True) if s.shape[-1] > 0 else s.new_zeros(())
    relative = rtol.unsqueeze(-1) if isinstance(rtol, Tensor) and rtol.dim() > 0 else rtol
    limit = largest * relative
    if atol is not None:
        absolute = atol.unsqueeze(-1) if isinstance(atol, Tensor) and atol.dim() > 0 else atol
        limit = torch.maximum(limit, torch.as_tensor(absolute, dtype=s.dtype))
    inverse = torch.where(s > limit, 1.0 / s, torch.zeros((), dtype=s.dtype))
    return (vh.mT * inverse.unsqueeze(-2)) @ u.mT


def _row_order(pivots: Tensor, n: int) -> Tensor:
    """The order of n rows after LAPACK's exchanges, whose row numbers start at 1."""
    order = torch.arange(n, device=pivots.device).expand(*pivots.shape[:-1], n)
    for i in range(pivots.shape[-1]):
        other = pivots[..., i : i + 1].long() - 1
        here, there = order[..., i : i + 1], order.gather(-1, other)
        order = order.scatter(-1, other, here).slice_scatter(there, -1, i, i + 1)
    return order


def _lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    p = lower = upper = lu.new_empty(0)
    if unpack_pivots:
        places = torch.arange(m, device=lu.device).unsqueeze(-1)
        p = (places == _row_order(pivots, m).unsqueeze(-2)).to(lu.dtype)
    if unpack_data:
        lower = lu[..., :k].tril(-1) + torch.eye(m, k, dtype=lu.dtype, device=lu.device)
        upper = lu[..., :k, :].triu()
    return p, lower, upper


def _lu_solve(
    lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if not left:  # X A = B is Aᵀ Xᵀ = Bᵀ
        return _lu_solve(lu, pivots, b.mT, adjoint=not adjoint).mT
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    lu = lu.expand(*batch, *lu.shape[-2:])
    rows = _row_order(pivots, lu.shape[-1]).unsqueeze(-1).expand_as(b)
    solve = torch.linalg.solve_triangular
    if adjoint:
        b = solve(lu.mT, solve(lu.mT, b, upper=False), upper=True, unitriangular=True)
        return b.scatter(-2, rows, b)
    b = solve(lu, b.gather(-2, rows), upper=False, unitriangular=True)
    return solve(lu, b, upper=True)


def linalg_decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions by operator."""
    return {
        _aten.cholesky.default: _cholesky,
        _aten.cholesky_inverse.default: _cholesky_inverse,
        _aten.cholesky_solve.default: _cholesky_solve,
        _aten.linalg_lu_solve.default: _lu_solve,
        _aten.linalg_pinv.atol_rtol_float: _pinv,
        _aten.linalg_pinv.atol_rtol_tensor: _pinv,
        _aten.lu_unpack.default: _lu_unpack,
    }


def keep_singular_checks(program: ExportedProgram) -> ExportedProgram:
    """Let operators check for singular matrices themselves, instead of separate check calls.

    Torch orders such calls by effect tokens, which no file format has.
    """
    graph = program.graph_module.graph
    checks = [n for n in graph.nodes if _checked_info(n) is not None]
    if not checks:
        return program
    for node in checks:
        producer = _checked_info(node).args[0]  # type: ignore[union-attr]
        producer.update_kwarg("check_errors", True)
    from torch.export._remove_effect_tokens_pass import _remove_effect_tokens

    program = _remove_effect_tokens(program)
    graph = program.graph_module.graph
    for node in graph.find_nodes(op="call_function", target=_aten._linalg_check_errors.default):
        graph.erase_node(node)
    program.graph_module.recompile()
    return program


def _checked_info(node: fx.Node) -> fx.Node | None:
    """The status that a node checks; None for other nodes."""
    if node.op != "call_function" or higher_order_name(node.target) != "with_effects":
        return None
    if node.args[1] is not _aten._linalg_check_errors.default:
        return None
    info = node.args[2]
    return info if isinstance(info, fx.Node) and is_getitem(info.target) else None
