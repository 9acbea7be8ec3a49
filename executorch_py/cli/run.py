"""`executorch_py run`: inputs from files or synthetic, outputs printed or saved, runs timed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from executorch_py.atomic_file import replacing
from executorch_py.runtime import Argument, Runtime, Signature
from executorch_py.terminal_text import name_text, quoted


def run(options: argparse.Namespace) -> int:
    """Run a method on inputs from files, or on synthetic inputs, and print its outputs."""
    if options.repeat < 1:
        raise ValueError(f"--repeat: expected 1 or more, got {options.repeat}")
    started = time.perf_counter()
    program = Runtime.get().load_program(
        options.file, data_path=options.data or None, n_threads=options.threads
    )
    method = program.load_method(options.method or program._main_method())
    load_ms = (time.perf_counter() - started) * 1e3
    inputs = collect_inputs(method.signature, options)
    times = []
    outputs: list[Any] = []
    for _ in range(options.repeat):
        started = time.perf_counter()
        outputs = method.execute(inputs)
        times.append((time.perf_counter() - started) * 1e3)
    print(f"{method.signature}")
    print(f"loaded in {load_ms:.2f} ms, {program.n_threads} threads")
    print(timing_text(times))
    if options.profile:
        from executorch_py.cli.profile import profile_text

        profile = method.profile(inputs, runs=max(options.repeat, 3))
        print(profile_text(profile, program.n_threads))
    show_outputs(method.signature, outputs, options.show)
    if options.output:
        save(options.output, method.signature, outputs)
    return 0


def timing_text(times: list[float]) -> str:
    """Times of the runs; the first is listed separately, since it packs weights."""
    if len(times) == 1:
        return f"ran in {times[0]:.3f} ms"
    later = np.array(times[1:])
    return (
        f"ran {len(times)} times: first {times[0]:.3f} ms; then median {np.median(later):.3f} ms, "
        f"fastest {later.min():.3f} ms, slowest {later.max():.3f} ms"
    )


# ---- inputs


def collect_inputs(signature: Signature, options: argparse.Namespace) -> list[Any]:
    """One value per input of the method, from files or synthetic."""
    if options.random or options.ones:
        if options.inputs:
            raise ValueError(
                f"expected input files or --random or --ones, got --random or --ones and "
                f"{len(options.inputs)} files: leave one of them out"
            )
        random = np.random.default_rng(options.seed) if options.random else None
        return [synthetic_input(argument, random) for argument in signature.inputs]
    arrays = read_arrays(options.inputs)
    tensors = [a for a in signature.inputs if a.kind == "tensor"]
    if len(arrays) != len(tensors):
        names = ", ".join(map(str, tensors)) or "none"
        raise ValueError(
            f"method {quoted(signature.method)}: expected {len(tensors)} tensor inputs ({names}), "
            f"got {len(arrays)}; --random or --ones generate them"
        )
    named = {name: array for name, array in arrays if name is not None}
    if set(named) == {tensor.name for tensor in tensors}:
        values = iter([named[tensor.name] for tensor in tensors])
    else:
        values = iter([array for _, array in arrays])
    return [next(values) if a.kind == "tensor" else traced_value(a) for a in signature.inputs]


def read_arrays(paths: list[str]) -> list[tuple[str | None, Any]]:
    arrays: list[tuple[str | None, Any]] = []
    for path in paths:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            arrays.append((None, loaded))
        else:
            arrays.extend((name, loaded[name]) for name in loaded.files)
    return arrays


def traced_value(argument: Argument) -> Any:
    """The traced value of a scalar input: a constant of the program, which accepts no other."""
    if argument.kind == "none":
        return None
    if argument.value is None:
        raise ValueError(
            f"input {quoted(argument.name)}: expected the traced value of a {argument.kind} in "
            "the file, got none: run this program from Python"
        )
    return argument.value


def synthetic_input(argument: Argument, random: np.random.Generator | None) -> Any:
    """Ones or noise of the largest allowed shape. Integers stay small: they are often indices."""
    if argument.kind != "tensor" or argument.shape is None or argument.dtype is None:
        return traced_value(argument)
    shape = tuple(d if isinstance(d, int) else d[1] for d in argument.shape)
    dtype = numpy_dtype(argument.dtype)
    if random is None:
        return np.ones(shape, dtype)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 8, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def numpy_dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise ValueError(
                f"NumPy has no dtype {name}: install it with `pip install ml_dtypes`"
            ) from None
        return np.dtype(getattr(ml_dtypes, name))


# ---- outputs


def show_outputs(signature: Signature, outputs: list[Any], whole: bool) -> None:
    limit = sys.maxsize if whole else 8
    for argument, value in zip(signature.outputs, outputs, strict=True):
        if not isinstance(value, np.ndarray):
            shown = quoted(value) if isinstance(value, str) and not whole else repr(value)
            print(f"{name_text(argument.name)}: {shown}")
            continue
        facts = ""
        if value.size and np.issubdtype(value.dtype, np.number) and value.dtype.kind != "c":
            wide = value.astype(np.float64)
            facts = f"  min {wide.min():.6g}  max {wide.max():.6g}  mean {wide.mean():.6g}"
        print(f"{name_text(argument.name)}: {value.dtype}{list(value.shape)}{facts}")
        text = np.array2string(value, threshold=limit, edgeitems=3, max_line_width=100)
        print("  " + text.replace("\n", "\n  "))


def save(path: str, signature: Signature, outputs: list[Any]) -> None:
    if Path(path).suffix != ".npz":
        raise ValueError(f"--output: expected a name that ends in .npz, got {path!r}")
    names = [name_text(argument.name) for argument in signature.outputs]
    if len(set(names)) != len(names):
        names = [f"output_{i}" for i in range(len(names))]
    arrays: dict[str, Any] = dict(zip(names, map(np.asarray, outputs), strict=True))
    with replacing(path) as file:
        np.savez(file, **arrays)
    print(f"saved {path}")
