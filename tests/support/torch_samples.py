"""Calls of ATen operators in torch's own test samples (OpInfo).

For each of its public functions torch has arguments of its tests: shapes without elements or
dimensions, broadcasting, permuted memory, unusual arguments. `calls` runs a fixed selection of them
in eager torch. It yields every call of an ATen operator with an out variant, once, with eager's
results. Knows no kernel.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_py.exir.ir.out_variants import find_out_variant

DTYPES = [torch.float32, torch.int64, torch.bool, torch.float16]
SAMPLES = 4  # samples of each function and dtype: the first, the last, and evenly between
READ = 40  # samples that are read of a function; some have thousands
LARGEST = 20_000  # elements of all arguments together


@dataclass(frozen=True)
class Call:
    """One call of the out variant of an ATen operator, and eager's results."""

    op: Any
    functional: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[torch.Tensor]

    def tensors(self) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((self.args, self.kwargs, self.results))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def __str__(self) -> str:
        return f"{self.functional}{_described((self.args, self.kwargs))}"


def functions() -> list[Any]:
    """Torch's descriptions of its functions, by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    foreign = ("jiterator", "masked.", "nn.functional.ctc_loss", "sparse", "torch.ops")
    chosen = [info for info in op_db if not info.name.startswith(foreign)]
    return sorted(chosen, key=lambda info: (info.name, info.variant_test_name))


def calls(infos: Sequence[Any]) -> Iterator[Call]:
    """Every ATen call in the samples of these functions, each once."""
    seen = set()
    for info, dtype in itertools.product(infos, DTYPES):
        if dtype not in info.dtypes:
            continue
        for call in _of_one(info, dtype):
            if str(call) not in seen:
                seen.add(str(call))
                yield call


def _of_one(info: Any, dtype: torch.dtype) -> Iterator[Call]:
    torch.manual_seed(0)
    # `info.sample_inputs` is slower: it walks the stack at each call to record a sample's origin.
    made = info.sample_inputs_func(info, "cpu", dtype, False)
    samples = list(itertools.islice(made, READ))
    picked = sorted({i * (len(samples) - 1) // (SAMPLES - 1) for i in range(SAMPLES)})
    for sample in (samples[i] for i in picked if samples):
        leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if sum(t.numel() for t in tensors) > LARGEST:
            continue
        recorder = _Recorder()
        with recorder, torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of functions that torch is about to drop
            info.op(sample.input, *sample.args, **sample.kwargs)
        for functional, args, kwargs, result in recorder.calls:
            call = _call(functional, args, kwargs, result)
            if call is not None:
                yield call


class _Recorder(TorchDispatchMode):
    """Records calls that change none of their arguments, with copies of arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(
        self, op: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if op._schema.is_mutable:
            return op(*args, **kwargs)
        given = pytree.tree_map_only(torch.Tensor, _dense, (tuple(args), kwargs))
        result = op(*args, **kwargs)
        kept = pytree.tree_map_only(torch.Tensor, _dense, result)
        self.calls.append((op, *given, kept))
        return result


def _dense(t: torch.Tensor) -> torch.Tensor:
    """A copy with a layout that a program's tensor may have: dense, in any dim order."""
    if t.layout != torch.strided:
        return t
    t = t.resolve_conj().resolve_neg()
    dense = torch.ops.aten.is_non_overlapping_and_dense(t)
    return t.clone() if dense else t.contiguous()


def _call(functional: Any, args: Any, kwargs: Any, result: Any) -> Call | None:
    out = find_out_variant(functional) if functional.namespace == "aten" else None
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    tensors = [t for t in pytree.tree_leaves((args, kwargs, results)) if _is_tensor(t)]
    if out is None or not all(_is_tensor(t) for t in results):
        return None
    if any(t.layout != torch.strided for t in tensors):
        return None
    taken = [a.name for a in out._schema.arguments if not a.is_out]
    named = {name: value for name, value in kwargs.items() if name in taken}
    return Call(out, functional, args[: len(taken)], named, results)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _described(arguments: Any) -> str:
    def one(t: torch.Tensor) -> str:
        name = str(t.dtype).removeprefix("torch.")
        return f"{name}{list(t.shape)}" + ("" if t.is_contiguous() else f"/{list(t.stride())}")

    return str(pytree.tree_map_only(torch.Tensor, one, arguments))


def widened(call: Call) -> Callable[[], list[torch.Tensor]]:
    """Eager's results of the same call in wider floats, rounded once."""
    wider = {
        torch.float16: torch.float32,
        torch.bfloat16: torch.float32,
        torch.float32: torch.float64,
        torch.complex64: torch.complex128,
    }

    def run() -> list[torch.Tensor]:
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, lambda t: t.to(wider.get(t.dtype, t.dtype)), (call.args, call.kwargs)
        )
        found = call.op.overloadpacket(*args, **kwargs)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        return [w.to(r.dtype) for w, r in zip(found, call.results, strict=True)]

    return run
