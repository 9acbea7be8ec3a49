"""Runs a delegated program in a process with a given load order of torch and the extension.

torch exports a pthreadpool of its own. The results are printed as JSON; test_load_order.py starts
the process. Arguments: the order, a program, a folder with its input and result (x.npy, y.npy).
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np

NAME = "pthreadpool_parallelize_1d"


class Place(ctypes.Structure):
    """The struct Dl_info of dladdr."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def library_of_global_symbol(name: str) -> str | None:
    """The library in which the process would find a symbol, or None."""
    everything = ctypes.CDLL(None)
    try:
        address = ctypes.cast(getattr(everything, name), ctypes.c_void_p)
    except AttributeError:
        return None
    place = Place()
    assert everything.dladdr(address, ctypes.byref(place)) != 0
    return Path(place.file.decode()).name


def libtorch() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "lib" / "libtorch_cpu.so"


def load(order: str) -> None:
    """Import modules in order; after "global" a module exports its symbols to later ones."""
    for step in order.split(", "):
        name = step.removeprefix("global ")
        if name == "libtorch":
            ctypes.CDLL(str(libtorch()), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
            continue
        flags = sys.getdlopenflags()
        if step.startswith("global "):
            sys.setdlopenflags(flags | os.RTLD_GLOBAL)
        importlib.import_module({"ours": "executorch_py._C", "torch": "torch"}[name])
        sys.setdlopenflags(flags)


def n_tasks() -> int:
    return len(os.listdir("/proc/self/task"))


def main(order: str, program: str, folder: str) -> None:
    load(order)
    from executorch_py import _C
    from executorch_py.runtime import Runtime

    x, y = (np.load(Path(folder) / f"{name}.npy") for name in "xy")
    errors, n_threads = [], []
    for n in (
        1,
        2,
    ):  # the run on one thread starts threads that any first run starts
        method = Runtime.get().load_program(program, n_threads=n).load_method("forward")
        assert method is not None
        for _ in range(20):
            errors.append(float(np.abs(np.asarray(method.execute([x])[0]) - y).max()))
        n_threads.append(n_tasks())
    facts = {
        "error": max(errors),
        "new_threads": n_threads[1] - n_threads[0],
        "found_in_ours": hasattr(ctypes.CDLL(_C.__file__), NAME),
        "found_by_all_in": library_of_global_symbol(NAME),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
