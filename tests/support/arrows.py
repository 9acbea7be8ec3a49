"""Tables of arrows: the rooms of C sources and of the package that each room may depend on.

Data flows one way and layers point down only. A line is a room and the rooms that it may include,
call or import; a room that no line names inherits from the folder above it. Adding a name here is
a decision about the design: say why in the commit.
"""

from __future__ import annotations

# ---- C: folders below csrc, and files on a lower layer than their folder. Includes and calls
# between files of one room are allowed.

_KERNEL_BASE = {"runtime", "kernels"}
_LOOPS = {*_KERNEL_BASE, "kernels/loops"}
_MICRO = {*_LOOPS, "kernels/micro", "kernels/micro/math"}
_XNN = "backends/xnnpack"
_XNN_BASE = ("et_xnnpack.h", "alloc_region.c", "alloc_region.h", "xnn_status.c", "xnn_status.h")
_XNN_SHARED = {f"{_XNN}/{name}" for name in _XNN_BASE}

C_ARROWS: dict[str, set[str]] = {
    "runtime": set(),
    # Tables, the header for users' operators and what every kernel file includes.
    "kernels": {"runtime", "kernels/lib"},
    "kernels/example": {"runtime", "kernels"},
    # Templates of loops, and micro-kernels per instruction set.
    "kernels/loops": {*_KERNEL_BASE, "kernels/lib"},
    "kernels/micro": {*_KERNEL_BASE},
    "kernels/micro/math": {"runtime"},
    "kernels/micro/attention": _MICRO,
    "kernels/micro/conv": _MICRO,
    "kernels/micro/convert": {*_MICRO, "kernels/micro/eltwise"},
    "kernels/micro/eltwise": {*_MICRO, "kernels/micro/rows", "kernels/micro/convert"},
    "kernels/micro/fft": _MICRO,
    "kernels/micro/gemm": {*_MICRO, "kernels/micro/convert"},
    "kernels/micro/linalg": _MICRO,
    "kernels/micro/pool": _MICRO,
    "kernels/micro/qgemm": _MICRO,
    "kernels/micro/quantized": _MICRO,
    "kernels/micro/random": _MICRO,
    "kernels/micro/rows": {*_MICRO, "kernels/micro/eltwise"},
    "kernels/micro/sample": _MICRO,
}
MICRO = {room for room in C_ARROWS if room.startswith("kernels/micro")}
C_ARROWS |= {
    "kernels/lib": {*_LOOPS, *MICRO},
    "kernels/op": {*_LOOPS, "kernels/lib", *MICRO},
}
OPERATORS = ("attention", "conv", "pool", "quantized")
C_ARROWS |= {f"kernels/op/{family}": C_ARROWS["kernels/op"] for family in OPERATORS}
C_ARROWS |= {
    "backends": {"runtime"},
    "backends/reference": {"runtime"},
    # Files that all rooms of the delegate share.
    **{f"{_XNN}/{name}": {"runtime", *_XNN_SHARED} - {f"{_XNN}/{name}"} for name in _XNN_BASE},
    f"{_XNN}/instance.c": {"runtime", f"{_XNN}/version_info.h", _XNN, *_XNN_SHARED},
    f"{_XNN}/payload": {"runtime"},
    f"{_XNN}/tuned": {"runtime", "kernels/micro/qgemm"},
    f"{_XNN}/subgraph": {"runtime", f"{_XNN}/payload", f"{_XNN}/tuned", *_XNN_SHARED},
    f"{_XNN}/weights": {"runtime", f"{_XNN}/subgraph", f"{_XNN}/instance.c", *_XNN_SHARED},
    _XNN: {
        *("runtime", f"{_XNN}/payload", f"{_XNN}/subgraph", f"{_XNN}/tuned", f"{_XNN}/weights"),
        *_XNN_SHARED,
    },
    "cmake": set(),
    "tools": {"runtime", "kernels", "kernels/micro", "backends"},
    "bindings": {
        *("runtime", "kernels", "backends", "tools", _XNN, f"{_XNN}/weights"),
        *(f"{_XNN}/instance.c", *_XNN_SHARED),
    },
}

# ---- Python: modules and packages. Imports within a room are allowed.

_EXIR = "executorch_py.exir"
_XNNPACK = "executorch_py.backends.xnnpack"


def _exir(*rooms: str) -> set[str]:
    return {f"{_EXIR}.{room}" for room in rooms}


def _xnnpack(*rooms: str) -> set[str]:
    return {f"{_XNNPACK}.{room}" for room in rooms}


_WORDS = _exir("error", "schema")
_GRAPH = {*_WORDS, *_exir("ir")}
_RULES = {*_GRAPH, *_exir("target", "dialects")}
_PASS = {*_RULES, *_exir("passes.base", "memory")}
_ROOMS_OF_PASSES = ("fuse", "inplace", "lower", "quantized", "simplify", "to_edge", "user")
_EXPORTER = {
    *_RULES,
    *_exir("memory", "serialize", "backend", "decompose", "emit", "passes", "program"),
    *_exir("inspect", "print_program", *(f"passes.{room}" for room in _ROOMS_OF_PASSES)),
    *_exir("passes.base", "passes.runner", "passes.checks", "passes.settings"),
    *_exir("passes.to_edge.steps"),
    _EXIR,
}

PYTHON_ARROWS: dict[str, set[str]] = {
    # The extension, errors and the table of upstream's paths, which every room may import.
    "executorch_py": set(),
    "executorch_py.runtime": {"executorch_py"},
    "executorch_py.toolchain": {"executorch_py", "executorch_py.runtime"},
    "executorch_py.cli": {
        *("executorch_py", "executorch_py.runtime", "executorch_py.toolchain"),
    },
    "executorch_py.__main__": {"executorch_py.cli"},
    # The exporter, from errors and schema to the stages that users call.
    f"{_EXIR}.error": set(),
    f"{_EXIR}.schema": set(),
    f"{_EXIR}._warnings": set(),
    f"{_EXIR}.control_flow": _exir("error"),
    f"{_EXIR}.ir": {*_WORDS, "executorch_py"},
    f"{_EXIR}.target": {*_GRAPH, "executorch_py"},
    f"{_EXIR}.dialects": {*_GRAPH, *_exir("target")},
    f"{_EXIR}.serialize": _GRAPH,
    f"{_EXIR}.memory": _GRAPH,
    f"{_EXIR}.inspect": _exir("ir"),
    f"{_EXIR}.print_program": _WORDS,
    f"{_EXIR}.backend": {*_GRAPH, *_exir("serialize"), "executorch_py"},
    f"{_EXIR}.decompose": _RULES,
    f"{_EXIR}.passes.base": _RULES,
    # Checks name the few passes whose results they allow for; settings name the planner's pass.
    f"{_EXIR}.passes.checks": {*_PASS, *_exir("passes.inplace", "passes.lower", "passes.to_edge")},
    f"{_EXIR}.passes.settings": {*_PASS, *_exir("passes.lower")},
    f"{_EXIR}.passes.runner": {*_PASS, *_exir("passes.checks", "passes.settings")},
    **{f"{_EXIR}.passes.{room}": _PASS for room in _ROOMS_OF_PASSES},
    f"{_EXIR}.passes.quantized": {*_PASS, *_exir("passes.user")},
    f"{_EXIR}.passes.to_edge.steps": {
        *_PASS,
        *_exir("passes.runner", "passes.to_edge", "passes.simplify", "passes.lower"),
    },
    f"{_EXIR}.passes": {
        *_PASS,
        *_exir("passes.runner", "passes.checks", "passes.settings", "passes.to_edge.steps"),
        *_exir(*(f"passes.{room}" for room in _ROOMS_OF_PASSES)),
    },
    f"{_EXIR}.emit": {*_GRAPH, *_exir("memory", "serialize")},
    f"{_EXIR}.program": {*_EXPORTER - {_EXIR}, "executorch_py.runtime", "executorch_py"},
    f"{_EXIR}.capture": _exir("error", "program"),
    _EXIR: _exir("capture", "emit", "program"),
    # Packages above the exporter.
    "executorch_py.quantizer": {*_RULES, *_exir("passes.quantized")},
    "executorch_py.testing": {*_EXPORTER, "executorch_py.runtime"},
    "executorch_py.devtools": {*_EXPORTER, "executorch_py.runtime"},
    "executorch_py.export": {*_EXPORTER, "executorch_py.quantizer", "executorch_py.runtime"},
    "executorch_py.util": _EXPORTER,
    "executorch_py.kernels": _exir("dialects"),
    "executorch_py.extension": {
        *(_EXPORTER | {"executorch_py", "executorch_py.runtime", "executorch_py.devtools"}),
    },
    # Backends ahead of time.
    "executorch_py.backends": set(),
    "executorch_py.backends.transforms": _exir("ir", "passes.base"),
    "executorch_py.backends.reference": {*_GRAPH, *_exir("backend", "serialize", "emit")},
    f"{_XNNPACK}.payload": {*_GRAPH, *_exir("serialize")},
    f"{_XNNPACK}.ops": {*_RULES, *_xnnpack("payload")},
    f"{_XNNPACK}.passes": {*_PASS, *_exir("passes.fuse", "passes.simplify"), *_xnnpack("payload")},
    f"{_XNNPACK}.support": {*_RULES, *_xnnpack("payload", "ops")},
    f"{_XNNPACK}.preprocess": {
        *(_RULES | _exir("backend") | _xnnpack("ops", "passes", "payload")),
    },
    f"{_XNNPACK}.partition": {
        *_RULES,
        *_exir("backend", "decompose", "passes.simplify"),
        *_xnnpack("support", "preprocess"),
    },
    f"{_XNNPACK}.utils": _exir("program"),
    f"{_XNNPACK}.quantizer": {
        *(_RULES | _exir("decompose") | _xnnpack("support", "partition")),
        "executorch_py.quantizer",
    },
    _XNNPACK: _xnnpack("partition", "preprocess", "utils"),
    f"{_XNNPACK}.recipes": {
        *(_xnnpack("partition", "quantizer", "utils") | {"executorch_py.export"}),
    },
}

# (importer, imported): imports that point up, in functions or for types alone, each a convenience
# that users expect below: a method of a program that calls what stands on programs.
LAZY_UPWARD: set[tuple[str, str]] = {
    ("executorch_py", "executorch_py.runtime"),
    ("executorch_py", "executorch_py.toolchain.sources"),
    # A program's methods verify it and record its export; that code is above it.
    (f"{_EXIR}.program.upper_floors", "executorch_py.testing.parity"),
    (f"{_EXIR}.program.upper_floors", "executorch_py.devtools.etrecord"),
    # A delegate lowers itself alone, as upstream's LoweredBackendModule.buffer() does.
    (f"{_EXIR}.backend.lowered_module", f"{_EXIR}.program"),
    (f"{_EXIR}.backend.lowered_module", f"{_EXIR}.program.config"),
    # Operators are kept whole for a partitioner, which is named as a type.
    (f"{_EXIR}.decompose.keep_ops", f"{_EXIR}.backend.partitioner"),
    ("executorch_py.quantizer", f"{_XNNPACK}.quantizer.validate"),
    ("executorch_py.quantizer", f"{_XNNPACK}.quantizer.xnnpack_quantizer"),
}
