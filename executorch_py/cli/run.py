"""`executorch_py run`: inputs from files or synthetic, outputs printed or saved, runs timed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from executorch_py.atomic_file import replacing
from executorch_py.cli.synthetic import numpy_dtype, synthetic_inputs, traced_value
from executorch_py.runtime import Argument, Runtime, Signature
from executorch_py.terminal_text import name_text, quoted


def run(options: argparse.Namespace) -> int:
    """Run a method on inputs from files, or on synthetic inputs, and print its outputs."""
    if options.repeat < 1:
        raise ValueError(f"--repeat: expected 1 or more, got {options.repeat}")
    if options.output:
        check_output(options.output, ".npz")
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
    if options.random or options.ones or options.shape:
        if options.inputs:
            raise ValueError(
                f"expected input files or --random or --ones or --shape, got one of these and "
                f"{len(options.inputs)} files: leave one of them out"
            )
        random = None if options.ones else np.random.default_rng(options.seed)
        inputs, note = synthetic_inputs(signature, options.shape, random)
        if note:
            print(note)
        return inputs
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
        chosen = [named[tensor.name] for tensor in tensors]
    else:
        chosen = [array for _, array in arrays]
    values = iter([_typed(array, a) for array, a in zip(chosen, tensors, strict=True)])
    return [next(values) if a.kind == "tensor" else traced_value(a) for a in signature.inputs]


def _typed(array: Any, argument: Argument) -> Any:
    """An array of a file; NumPy's files keep no more of bfloat16 and float8 than the bytes."""
    if array.dtype.kind != "V" or argument.dtype is None:
        return array
    dtype = numpy_dtype(argument.dtype)
    return array.view(dtype) if dtype.itemsize == array.dtype.itemsize else array


def read_arrays(paths: list[str]) -> list[tuple[str | None, Any]]:
    arrays: list[tuple[str | None, Any]] = []
    for path in paths:
        try:
            loaded = np.load(path, allow_pickle=False)
        except (ValueError, EOFError):
            with open(path, "rb") as file:
                head = file.read(8)
            raise ValueError(
                f"{path}: expected a .npy or .npz file of numbers, got one that begins with "
                f"{head!r}: write one with numpy.save(path, array)"
            ) from None
        if isinstance(loaded, np.ndarray):
            arrays.append((None, loaded))
        else:
            arrays.extend((name, loaded[name]) for name in loaded.files)
    return arrays


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


def check_output(path: str, suffix: str) -> None:
    """Refuse a file that cannot be written, before the work that makes its contents."""
    if Path(path).suffix != suffix:
        raise ValueError(f"--output: expected a name that ends in {suffix}, got {path!r}")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(f"--output: expected an existing folder {str(folder)!r}, got none")


def save(path: str, signature: Signature, outputs: list[Any]) -> None:
    names = [name_text(argument.name) for argument in signature.outputs]
    if len(set(names)) != len(names):
        names = [f"output_{i}" for i in range(len(names))]
    arrays: dict[str, Any] = dict(zip(names, map(np.asarray, outputs), strict=True))
    with replacing(path) as file:
        np.savez(file, **arrays)
    print(f"saved {path}")
