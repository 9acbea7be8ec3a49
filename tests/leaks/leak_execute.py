"""Reference counts and memory stay equal when methods run in every way, failures included.

test_leaks.py runs this in a separate process: argv[1] is a program with forward(x, y) -> x + y,
argv[2] the same without planned memory.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable

import numpy as np

from executorch_py import _C

X = np.ones((64, 64), np.float32)
STRIDED = np.ones((64, 128), np.float32)[:, ::2]
WRONG = np.ones((64, 64), np.float64)
NAMES = ["left", "right"]


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except (RuntimeError, TypeError):
        return
    raise SystemExit(f"{call} was not refused")


def once(path: str) -> None:
    program = _C.open_program(path, n_threads=2)
    method = program.load_method("forward")
    method.name_inputs(NAMES)
    for clone in (True, False):
        method.execute([X, X], clone)
        method.execute((X, STRIDED), clone_outputs=clone, kind="numpy")
        method.execute([memoryview(X), X], clone)
    method.set_inputs([X, X])
    method.run()
    method.outputs()
    for wrong in ([X], [X, WRONG], [X, X[:1]], [X, None], X, [X, X, X]):
        refused(lambda wrong=wrong: method.execute(wrong))  # type: ignore[misc]
    refused(lambda: method.execute([X, X], kind="none"))
    refused(lambda: method.execute([X, X], unknown=1))  # type: ignore[call-arg]
    refused(lambda: method.attribute("absent"))
    refused(lambda: program.load_method("absent"))
    method.memory(), method.input_state(), program.method_info("forward"), program.buffer()
    program.named_data(), program.data_keys(), program.method_names()
    (view,) = method.execute([X, X], False)
    program.close()
    refused(lambda: method.execute([X, X]))
    assert view.sum() == 64 * 64 * 2


def in_memory(path: str) -> None:
    with open(path, "rb") as file:
        data = file.read()
    method = _C.open_program(data, n_threads=1).load_method("forward")
    method.execute([X, X])
    refused(lambda: _C.open_program(data[:100]))
    refused(lambda: _C.open_program(data, [data]))
    refused(lambda: _C.open_program("/does/not/exist"))


def facts() -> None:
    _C.kernel_manifest(), _C.backend_names(), _C.system_info()


def main() -> None:
    def everything() -> None:
        for path in sys.argv[1:3]:
            once(path)
            in_memory(path)
        facts()

    for _ in range(20):
        everything()
    gc.collect()
    watched = [X, STRIDED, WRONG, NAMES, None, np.dtype(np.float32), np.dtype(np.float64)]
    before = [sys.getrefcount(thing) for thing in watched]
    blocks = sys.getallocatedblocks()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds = 600  # more than what CPython's caches hold once they are full
    for _ in range(rounds):
        everything()
    gc.collect()
    after = [sys.getrefcount(thing) for thing in watched]
    for thing, old, new in zip(watched, before, after, strict=True):
        # Less than one per round is no leak of the extension: CPython's cache of attribute lookups
        # starts full of None, for example, and replaces it entry by entry.
        if abs(new - old) > rounds // 2:
            raise SystemExit(f"references to {type(thing)}: {old} before, {new} after")
    grown = sys.getallocatedblocks() - blocks
    if grown > rounds:
        raise SystemExit(f"{grown} more memory blocks after {rounds} rounds")
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    if more > 4096:
        raise SystemExit(f"{more} KiB more memory after {rounds} rounds")


main()
