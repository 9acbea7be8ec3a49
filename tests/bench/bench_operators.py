"""Every kind of operator at a million elements beside eager torch, on one thread and on two.

Cases come from the operator_*.py files here, with f32 inputs unless their name has another type.
Both sides run by turns in one process. The output is one JSON line per case with the best times in
microseconds and their ratio, then the ten worst cases for each number of threads. Eager runs its
out variant and its plain one; the faster counts. One thread is timed by its processor time, several
by the clock, after a pause in which eager's threads stop spinning. A slow case takes more turns,
and as many again when all others are done, because another program may have slowed it down. Numbers
as arguments are numbers of threads; a word restricts the run to subjects that contain it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from operator_data import Case
from operator_math import casts, choices, functions, pairs
from operator_moves import fills, images, indices, layouts, samples
from operator_reduce import norms, orders, reductions, transforms
from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.op_driver import Out, dim_order, full_arguments, has_op, time_op

TURN_NS = 4e6
FEW_TURNS, MANY_TURNS = 2, 8
SLOW = 1.5  # from this ratio on a case takes many turns
SPIN_SECONDS = 0.02  # eager's threads may spin for so long after their work
TABLES: tuple[Callable[[], Iterator[Case]], ...] = (
    functions, pairs, choices, casts, reductions, norms, orders, transforms,
    layouts, fills, indices, images, samples,
)  # fmt: skip


def eager_calls(op: Any, given: Sequence[Any], named: dict[str, Any]) -> list[Callable[[], Any]]:
    """The plain call, and the out variant with allocated memory."""
    packet = op.overloadpacket
    if packet is torch.ops.aten._to_copy:
        return [lambda: given[0].to(given[1])]
    result = packet(*given, **named)
    results = list(result) if isinstance(result, tuple | list) else [result]
    names = [a.name for a in op._schema.arguments if a.is_out]
    calls: list[Callable[[], Any]] = [lambda: packet(*given, **named)]
    if len(names) == len(results):
        outs = dict(zip(names, (torch.empty_like(r) for r in results), strict=True))
        calls.append(lambda: op(*given, **named, **outs))
    return calls


def eager_ns(call: Callable[[], Any], repeats: int, rounds: int, threads: int) -> float:
    """The time of one eager call, the best of the rounds, as time_op measures ours."""
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    best = float("inf")
    for _ in range(rounds):
        start = clock()
        for _ in range(repeats):
            call()
        best = min(best, (clock() - start) / repeats)
    return best


def planned(result: torch.Tensor, most: int) -> Out:
    """Memory for a result; the maximum size if its size depends on the data."""
    dense = torch.ops.aten.is_non_overlapping_and_dense(result)
    shape = tuple(result.shape)
    if most and result.numel() > 0:
        shape = (most * result.shape[0] // result.numel(), *shape[1:])
    return Out(result.dtype, shape, dim_order(result) if dense else None)


def compare(name: str, args: Sequence[Any], threads: int) -> tuple[float, float]:
    """The best of ours and of eager's in ns; the operator is named without `aten::`."""
    packet, overload = name.split(".")
    op = getattr(getattr(torch.ops.aten, packet), overload)
    named: dict[str, Any] = {}
    if args and isinstance(args[-1], dict):
        *args, named = args
    calls = eager_calls(op, args, named)
    result = calls[0]()
    results = list(result) if isinstance(result, tuple | list) else [result]
    listed = any(a.is_out and "List" in str(a.type) for a in op._schema.arguments)
    outs = [planned(t, args[0].numel() if "unique" in name else 0) for t in results]
    full = [args[0], False, None] if packet == "_to_copy" else full_arguments(op, args, named)
    once, faster = min(((eager_ns(call, 1, 2, threads), call) for call in calls), key=itemgetter(0))
    rounds = 5 if once < TURN_NS else 2
    repeats = max(1, int(TURN_NS / rounds / max(1.0, once)))
    ours_ns, theirs_ns = float("inf"), float("inf")
    for turn in range(MANY_TURNS):
        if turn >= FEW_TURNS and ours_ns < SLOW * theirs_ns:
            break
        if threads > 1:
            time.sleep(SPIN_SECONDS)
        ours = time_op(
            f"aten::{name}", *full, out=outs, threads=threads, repeats=repeats, rounds=rounds,
            tensor_list_out=listed,
        )  # fmt: skip
        if ours < 0:
            raise SystemExit(f"{name}: the kernel refused the call")
        ours_ns = min(ours_ns, ours)
        theirs_ns = min(theirs_ns, eager_ns(faster, repeats, rounds, threads))
    return ours_ns, theirs_ns


def run(chosen: Sequence[str], threads: int) -> None:
    torch.set_num_threads(threads)
    best: dict[str, tuple[float, float]] = {}

    def measure(is_wanted: Callable[[str], bool]) -> None:
        for subject, name, args in (case for cases in TABLES for case in cases()):
            if is_wanted(subject) and has_op(f"aten::{name}"):
                ours, theirs = compare(name, args, threads)
                before = best.get(subject, (ours, theirs))
                ours, theirs = best[subject] = min(ours, before[0]), min(theirs, before[1])
                shown = f"{subject}, {threads} threads" if threads > 1 else subject
                report(shown, ours_us=ours / 1e3, eager_us=theirs / 1e3, ratio=ours / theirs)

    measure(lambda subject: all(word in subject for word in chosen))
    ratios = {subject: ours / theirs for subject, (ours, theirs) in best.items()}
    measure(lambda subject: ratios.get(subject, 0.0) > SLOW)
    ratios = {subject: ours / theirs for subject, (ours, theirs) in best.items()}
    worst = sorted(ratios, key=lambda s: -ratios[s])[:10]
    for place, subject in enumerate(worst, 1):
        report(f"worst {place} of {threads} threads: {subject}", ratio=ratios[subject])
    above = sum(r > 2 for r in ratios.values())
    report(f"slower than twice eager, {threads} threads", count=above, of=len(ratios))


def main() -> None:
    warnings.simplefilter("ignore")  # eager's out variants warn where they resize
    counts = [int(a) for a in sys.argv[1:] if a.isdigit()]
    for threads in counts or (1, 2):
        run([a for a in sys.argv[1:] if not a.isdigit()], threads)


if __name__ == "__main__":
    main()
