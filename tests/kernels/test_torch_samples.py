"""Kernels against eager torch on the samples that torch tests its own functions with.

About 4900 calls of the operators into which the functions decompose, each in every way of running:
static and growing outputs, prepared or not, with threads. Calls that a kernel refuses on purpose,
and results that are not unique, are in the tables here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.op_driver import OpError, check_op, has_op
from support.op_values import DTYPES
from support.torch_samples import Call, calls, functions, widened

PARTS = 16
MIN_CALLS = 200  # in each part
# Random and uninitialized results are not compared.
RANDOM = frozenset({
    "bernoulli", "empty", "empty_like", "empty_permuted", "empty_strided", "multinomial",
    "native_dropout", "new_empty", "new_empty_strided", "normal", "normal_functional", "poisson",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
})  # fmt: skip
# These operators have several right results: signs of vectors, layouts of factors, indices of equal
# elements. Their own tests compare the unique parts.
NOT_UNIQUE = frozenset({
    "_linalg_det", "_linalg_eigh", "_linalg_slogdet", "_linalg_svd", "linalg_lu_factor_ex",
    "linalg_qr", "sort", "topk",
})  # fmt: skip
# Kernels refuse these; the exporter writes such calls in other operators.
REFUSED: dict[str, Callable[[Call], bool]] = {
    "index_reduce": lambda call: "mean" in call.args,
    "scatter_reduce": lambda call: "mean" in call.args,
    "baddbmm": lambda call: not call.results[0].dtype.is_floating_point,
    "gather": lambda call: call.args[2].dtype not in (torch.int32, torch.int64),
}


def _kernel(call: Call) -> str:
    schema = call.op._schema
    name: str = schema.name
    return name + (f".{schema.overload_name}" if schema.overload_name else "")


def _comparable(call: Call) -> bool:
    name = call.functional._schema.name.split("::")[1]
    if name in RANDOM | NOT_UNIQUE or not has_op(_kernel(call)):
        return False
    if any(t.dtype not in DTYPES for t in call.tensors()):
        return False  # complex numbers of two halves
    return name not in REFUSED or not REFUSED[name](call)


# A convolution's hundreds of products of numbers up to 9 nearly cancel: its errors are of their
# size, not of the sum's.
def _failure(call: Call) -> str:
    """The error of a call; empty if its results are eager's, or nearer to the exact ones."""
    scale = 4.0 if call.functional is torch.ops.aten.convolution.default else 1.0
    try:
        try:
            check_op(call.op, *call.args, expected=call.results, scale=scale, **call.kwargs)
        except AssertionError:
            check_op(call.op, *call.args, expected=widened(call)(), scale=scale, **call.kwargs)
    except (AssertionError, OpError, RuntimeError) as error:
        return f"{call}\n    {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_give_what_eager_gives_on_torchs_samples(part: int) -> None:
    known = [c for c in calls(functions()[part::PARTS]) if _comparable(c)]
    assert len(known) >= MIN_CALLS, f"torch's samples decompose into {len(known)} calls only"
    failures = [words for words in map(_failure, known) if words]
    assert not failures, f"{len(failures)} of {len(known)} calls differ:\n" + "\n".join(failures)
