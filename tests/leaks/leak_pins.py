"""An input used in place is held exactly until the next run or close().

test_leaks.py runs this in a separate process: argv[1] is a program with unplanned inputs.
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np

from executorch_py import _C

program = _C.open_program(sys.argv[1], n_threads=1)
method = program.load_method("forward")
x, y = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
alone = sys.getrefcount(x)


def expect(extra: int, when: str) -> None:
    found = sys.getrefcount(x) - alone
    if found != extra:
        raise SystemExit(f"{when}: expected {extra} references, got {found}")


method.execute([x, x])
expect(2, "after a run with it")
with contextlib.suppress(ValueError):
    method.execute([y, None])
expect(2, "after a refused run with another")
method.execute([y, x])
expect(1, "after a run with it once")
method.execute([y, y])
expect(0, "after a run with another")
method.execute([x, x])
method.close()
expect(0, "after closing the method")
method = program.load_method("forward")
method.execute([x, x])
program.close()
expect(0, "after closing the program")
