"""Reference cycles through programs, methods and pinned inputs are collected.

test_leaks.py runs this in a separate process: argv[1] is a program with unplanned inputs.
"""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np

from executorch_py import _C


class Holder(np.ndarray):  # type: ignore[type-arg]
    """An array that can point back at the method that pins it."""

    method: _C.Method


def cycle(path: str) -> weakref.ref[Holder]:
    method = _C.open_program(path, n_threads=1).load_method("forward")
    pinned = np.ones((64, 64), np.float32).view(Holder)
    pinned.method = method
    method.execute([pinned, pinned])
    assert method.input_state()[0]["borrowed"]
    return weakref.ref(pinned)


gc.disable()
dead = [cycle(sys.argv[1]) for _ in range(10)]
if any(ref() is None for ref in dead):
    raise SystemExit("the cycle was no cycle: the input was not pinned")
gc.collect()
if any(ref() is not None for ref in dead):
    raise SystemExit("a cycle through a pinned input was not collected")
