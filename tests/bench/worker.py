"""One side of a comparison, driven over pipes so that all sides are timed in turn within one run.

Reads one JSON request a line and answers one JSON line. peers.py lists the virtual environment of
each side. Requests:
  {"do": "load", "path": …, "threads": n}     open and load method forward; answers {"ms": …},
                                              without what is imported for it. Sides that run no
                                              .pte take a model's name as path.
  {"do": "inputs", "model": name}             build the model's inputs, or read them if the name
                                              is that of an .npz file
  {"do": "time", "repeat": k}                 k runs; answers {"ms": [per run]}
  {"do": "outputs", "path": …}                writes the outputs of a run as .npz
  {"do": "lower", "model": name, "path": …}   exported program to bytes; answers {"ms", "peak_mb"};
                                              sides of int8 quantize the model before
  {"do": "prepare", "threads": n}             imports what load needs; answers {}
  {"do": "begin", "path": …, "threads": n} load, then one run with the model's inputs; answers
                                              {"ms", "run_ms", "peak_mb"}: the load as above, the
                                              run, and most memory held beyond that before both.
                                              "packed": … is a path for packed weights, ours only
A request that fails is answered by {"error": text}.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parent))
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def _status_mb(field: str) -> float:
    """A line of /proc/self/status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


class Side:
    """Base of the three sides: the requests and how they are timed."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.run: Callable[[], Any] = lambda: None

    def prepare(self, threads: int) -> None:
        """Imports the runtime, so that a timed load does not include imports."""

    def load(self, path: str, threads: int) -> dict[str, Any]:
        self.prepare(threads)
        start = time.perf_counter()
        self.open(path, threads)
        return {"ms": (time.perf_counter() - start) * 1e3}

    def open(self, path: str, threads: int) -> None:
        raise RuntimeError("this side runs no files")

    def prepare_inputs(self, model: str) -> dict[str, Any]:
        if model.endswith(".npz"):
            import numpy as np

            with np.load(model) as arrays:
                self.inputs = list(arrays.values())
        else:
            from subjects import subject

            self.inputs = list(subject(model)[1]())
        return {}

    def keep_outputs(self, path: str) -> dict[str, Any]:
        import numpy as np

        np.savez(path, *self.run())
        return {}

    def time(self, repeat: int) -> dict[str, Any]:
        run = self.run
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        return {"ms": times}

    def lower(self, model: str, path: str) -> dict[str, Any]:
        from subjects import exported

        return self.write(exported(model), path)

    def write(self, program: Any, path: str) -> dict[str, Any]:
        start = time.perf_counter()
        data = self.to_bytes(program)
        seconds = time.perf_counter() - start
        Path(path).write_bytes(data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"ms": seconds * 1e3, "peak_mb": peak}

    def to_bytes(self, program: Any) -> bytes:
        raise RuntimeError("this side lowers nothing")

    def begin(self, path: str, threads: int, packed: str | None = None) -> dict[str, Any]:
        self.prepare(threads)
        if packed is not None:
            self.keep_packed(packed)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _status_mb("VmHWM")
        answer = {**self.load(path, threads), "run_ms": self.time(1)["ms"][0]}
        return {**answer, "peak_mb": _status_mb("VmHWM") - before}

    def keep_packed(self, path: str) -> None:
        raise RuntimeError("this side keeps no packed weights")


class Ours(Side):
    options: dict[str, dict[str, Any]] | None = None

    def prepare(self, threads: int) -> None:
        from executorch_py.runtime import Runtime

        Runtime.get()

    def keep_packed(self, path: str) -> None:
        self.options = {"XnnpackBackend": {"packed_cache_path": path}}

    def open(self, path: str, threads: int) -> None:
        from executorch_py.runtime import Runtime

        runtime = Runtime.get()
        program = runtime.load_program(path, n_threads=threads, backend_options=self.options)
        method = program.load_method("forward")
        self.run = lambda: method.execute(self.inputs)

    def to_bytes(self, program: Any) -> bytes:
        from executorch_py.exir import to_edge

        return bytes(to_edge(program).to_executorch().buffer)


def with_own_operators(program: Any, precision: str = "f32") -> bytes:
    from executorch_py.exir import ExecutorchBackendConfig, to_edge

    config = ExecutorchBackendConfig(own_operators=True, precision=precision)
    return bytes(to_edge(program).to_executorch(config).buffer)


class OursOwnOperators(Ours):
    """A file for our runtime only."""

    def to_bytes(self, program: Any) -> bytes:
        return with_own_operators(program)


class OursBf16(Ours):
    """A file for our runtime only, whose products round their operands to bfloat16."""

    def to_bytes(self, program: Any) -> bytes:
        return with_own_operators(program, "bf16")


class Reading(Side):
    """Reads as many bytes as the path says, as fast as this machine's threads can; runs no
    model."""

    def open(self, path: str, threads: int) -> None:
        self.nbytes, self.threads = int(path), threads

    def time(self, repeat: int) -> dict[str, Any]:
        from executorch_py import _C

        # Reads many times and reports the fastest.
        _, _, [(bytes_per_s, _, _)] = _C.machine_rates(self.threads, (self.nbytes,))
        return {"ms": [self.nbytes / bytes_per_s * 1e3] * repeat}


class OursXnnpack(Ours):
    """Delegated to XNNPACK by our partitioner."""

    def to_bytes(self, program: Any) -> bytes:
        from executorch_py.backends.xnnpack import XnnpackPartitioner
        from executorch_py.exir import to_edge_transform_and_lower

        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        return bytes(edge.to_executorch().buffer)


class Int8(Side):
    """Mixin: quantizes the model by PT2E before lowering."""

    def lower(self, model: str, path: str) -> dict[str, Any]:
        from subjects import quantized

        return self.write(quantized(model, self.prepared), path)

    def prepared(self, program: Any) -> Any:
        raise RuntimeError("this side has no quantizer")


class OursInt8(Int8, OursXnnpack):
    """Static int8, weights by channel, then as OursXnnpack."""

    weights: ClassVar[dict[str, int]] = {}

    def prepared(self, program: Any) -> Any:
        from executorch_py.quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
            prepare_pt2e,
        )

        config = get_symmetric_quantization_config(is_per_channel=True, **self.weights)
        return prepare_pt2e(program, XNNPACKQuantizer().set_global(config))


class OursInt7(OursInt8):
    """OursInt8 with 7-bit weights, whose products AVX2 adds in 16 bits without saturation."""

    weights: ClassVar[dict[str, int]] = {"weight_qmin": -64, "weight_qmax": 63}


class OwnInt8(OursInt8):
    """Static int8, weights by channel, on the integer kernels of our runtime, not delegated."""

    def to_bytes(self, program: Any) -> bytes:
        return with_own_operators(program)


class Upstream(Side):
    def prepare(self, threads: int) -> None:
        from executorch.extension.pybindings import portable_lib

        portable_lib._unsafe_reset_threadpool(threads)
        from executorch.runtime import Runtime

        Runtime.get()

    def open(self, path: str, threads: int) -> None:
        from executorch.runtime import Runtime

        self.program = Runtime.get().load_program(path)
        method = self.program.load_method("forward")
        self.run = lambda: method.execute(self.inputs)

    def to_bytes(self, program: Any) -> bytes:
        from executorch.exir import to_edge

        return bytes(to_edge(program).to_executorch().buffer)


class UpstreamXnnpack(Upstream):
    """Upstream's file, delegated by its partitioner."""

    def to_bytes(self, program: Any) -> bytes:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        return bytes(edge.to_executorch().buffer)


class UpstreamInt8(Int8, UpstreamXnnpack):
    """Int8 by upstream's quantizer and partitioner."""

    def prepared(self, program: Any) -> Any:
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        config = get_symmetric_quantization_config(is_per_channel=True)
        return prepare_pt2e(program, XNNPACKQuantizer().set_global(config))


class OnnxRuntime(Side):
    def lower(self, model: str, path: str) -> dict[str, Any]:
        import torch
        from subjects import subject

        build, inputs = subject(model)
        start = time.perf_counter()
        with torch.no_grad():
            torch.onnx.export(build().eval(), inputs(), path, dynamo=True, verbose=False)
        return {"ms": (time.perf_counter() - start) * 1e3}

    def open(self, path: str, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options)
        names = [entry.name for entry in session.get_inputs()]
        self.run = lambda: session.run(None, dict(zip(names, self.inputs, strict=True)))

    def prepare_inputs(self, model: str) -> dict[str, Any]:
        super().prepare_inputs(model)
        if not model.endswith(".npz"):
            self.inputs = [value.numpy() for value in self.inputs]
        return {}


class OnnxRuntimeInt8(OnnxRuntime):
    """ONNX Runtime's own static quantization: uint8 activations and int8 weights by channel, its
    fastest types on x86 (sums of two products may saturate there)."""

    def lower(self, model: str, path: str) -> dict[str, Any]:
        import onnx_int8

        start = time.perf_counter()
        onnx_int8.write(model, path)
        return {"ms": (time.perf_counter() - start) * 1e3}


class OpenVinoInt8(OnnxRuntime):
    """The file of ONNX Runtime's quantization, compiled by OpenVINO to its own int8."""

    def open(self, path: str, threads: int) -> None:
        import openvino

        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        core = openvino.Core()
        request = core.compile_model(path, "CPU", settings).create_infer_request()
        self.run = lambda: request.infer(self.inputs, share_inputs=True)


class OpenVino(OnnxRuntime):
    """Runs in f32; the default on some CPUs is bfloat16."""

    precision: ClassVar[str] = "f32"

    def open(self, path: str, threads: int) -> None:
        import openvino
        from subjects import exported

        model = openvino.convert_model(exported(path))
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": self.precision,
        }
        request = openvino.compile_model(model, "CPU", settings).create_infer_request()
        self.run = lambda: request.infer(self.inputs, share_inputs=True)


class OpenVinoBf16(OpenVino):
    precision = "bf16"


class Eager(Side):
    def open(self, path: str, threads: int) -> None:
        import torch
        from subjects import subject

        torch.set_num_threads(threads)
        model = subject(path)[0]().eval()

        def run() -> None:
            with torch.inference_mode():
                model(*self.inputs)

        self.run = run


class Compiled(Eager):
    """torch.compile, which compiles in its first runs."""

    def open(self, path: str, threads: int) -> None:
        import torch
        from subjects import subject

        torch.set_num_threads(threads)
        model = torch.compile(subject(path)[0]().eval())

        def run() -> None:
            with torch.inference_mode():
                model(*self.inputs)

        self.run = run


SIDES: dict[str, type[Side]] = {
    "ours": Ours,
    "own_operators": OursOwnOperators,
    "own_bf16": OursBf16,
    "reading": Reading,
    "xnnpack": OursXnnpack,
    "eager": Eager,
    "compiled": Compiled,
    "upstream": Upstream,
    "upstream_xnnpack": UpstreamXnnpack,
    "onnxruntime": OnnxRuntime,
    "int8": OursInt8,
    "own_int8": OwnInt8,
    "int7": OursInt7,
    "upstream_int8": UpstreamInt8,
    "onnxruntime_int8": OnnxRuntimeInt8,
    "openvino_int8": OpenVinoInt8,
    "openvino": OpenVino,
    "openvino_bf16": OpenVinoBf16,
}


def answered(side: Side, do: str, **request: Any) -> dict[str, Any]:
    match do:
        case "load":
            return side.load(**request)
        case "inputs":
            return side.prepare_inputs(**request)
        case "time":
            return side.time(**request)
        case "outputs":
            return side.keep_outputs(**request)
        case "lower":
            return side.lower(**request)
        case "prepare":
            side.prepare(**request)
            return {}
        case "begin":
            return side.begin(**request)
        case other:
            raise ValueError(f"unknown request {other!r}")


def main() -> None:
    side = SIDES[sys.argv[2]]()
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = answered(side, **request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        channel.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
