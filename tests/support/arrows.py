"""Tables of arrows: the rooms of C sources and of the package that each room may depend on.

Data flows one way and layers point down only. A line is a room and the rooms that it may include,
call or import, each of which it does; a room that no line names inherits from the folder above it.
Adding a name here is a decision about the design: say why in the commit.
"""

from __future__ import annotations


def _in(folder: str, separator: str, rooms: tuple[str, ...]) -> set[str]:
    return {f"{folder}{separator}{room}" for room in rooms}


# ---- C: folders below csrc, and files on a lower layer than their folder. Includes and calls
# between files of one room are allowed.

_XNN = "backends/xnnpack"


def _kernels(*rooms: str) -> set[str]:
    return _in("kernels", "/", rooms)


def _micro(*rooms: str) -> set[str]:
    return _in("kernels/micro", "/", rooms)


def _xnn(*rooms: str) -> set[str]:
    return _in(_XNN, "/", rooms)


C_ARROWS: dict[str, set[str]] = {
    "runtime": set(),
    # Training beside the core: parameters of a method, optimizers.
    "runtime/training": {"runtime"},
    # Names beside the core: text of the file that only some programs read.
    "runtime/signature": {"runtime"},
    # Predicates of contracts, sets of element types, the test for NaN, and bounds of sizes: every
    # kernel file may include them.
    "kernels/contract.h": {"runtime"},
    "kernels/dtype_sets.h": set(),
    "kernels/is_nan.h": set(),
    "kernels/sizes.h": set(),
    "kernels/stack.h": set(),
    # Templates of loops, and micro-kernels per instruction set.
    "kernels/loops": {"runtime"} | _kernels("contract.h", "dtype_sets.h"),
    "kernels/micro": _kernels("contract.h"),
    "kernels/micro/math": {"runtime"},
    "kernels/micro/attention": {"runtime"}
    | _kernels("contract.h", "dtype_sets.h", "loops", "micro", "micro/math", "stack.h"),
    "kernels/micro/conv": _kernels("contract.h", "micro", "stack.h"),
    "kernels/micro/convert": {"runtime"} | _kernels("contract.h", "dtype_sets.h", "loops", "micro"),
    "kernels/micro/eltwise": _kernels("loops", "micro") | _micro("math", "rows"),
    "kernels/micro/fft": {"runtime"} | _kernels("contract.h", "dtype_sets.h", "micro", "stack.h"),
    "kernels/micro/gemm": {"runtime"}
    | _kernels("contract.h", "dtype_sets.h", "micro", "micro/convert", "sizes.h", "stack.h"),
    "kernels/micro/linalg": _kernels("contract.h", "loops", "micro", "micro/math"),
    "kernels/micro/pool": {"runtime"} | _kernels("contract.h", "dtype_sets.h", "is_nan.h", "micro"),
    "kernels/micro/qgemm": {"runtime"} | _kernels("contract.h", "micro", "micro/math"),
    "kernels/micro/quantized": {"runtime"} | _kernels("contract.h", "dtype_sets.h", "micro"),
    "kernels/micro/random": _kernels("contract.h", "loops", "micro", "micro/math"),
    "kernels/micro/rows": {"runtime"}
    | _kernels("contract.h", "dtype_sets.h", "loops", "micro", "micro/math", "stack.h"),
    "kernels/micro/sample": _kernels("contract.h", "loops", "micro", "micro/math", "stack.h"),
    "kernels/lib": {"runtime"}
    | _kernels("dtype_sets.h", "loops", "micro", "sizes.h", "stack.h")
    | _micro(
        "attention",
        "convert",
        "eltwise",
        "fft",
        "gemm",
        "math",
        "qgemm",
        "quantized",
        "random",
        "rows",
    ),
    # Headers of operators: kernel.h, the prototypes of all, the header for users' operators.
    "kernels": {"runtime"} | _kernels("dtype_sets.h", "lib", "stack.h"),
    "kernels/example": {"runtime", "kernels"},
    "kernels/op": {"runtime", "kernels"}
    | _kernels("is_nan.h", "lib", "loops", "micro")
    | _micro("convert", "eltwise", "gemm", "linalg", "math", "random", "rows", "sample"),
    "kernels/op/attention": {"runtime", "kernels", "kernels/lib", "kernels/sizes.h"}
    | _micro("convert", "eltwise", "gemm", "qgemm"),
    "kernels/op/conv": {"runtime", "kernels", "kernels/sizes.h"}
    | _kernels("lib", "micro")
    | _micro("conv", "convert", "gemm"),
    "kernels/op/pool": {"runtime", "kernels", "kernels/sizes.h"}
    | _kernels("dtype_sets.h", "is_nan.h", "lib", "micro")
    | _micro("convert", "pool"),
    "kernels/op/quantized": {"runtime", "kernels", "kernels/lib", "kernels/sizes.h"}
    | _micro("convert", "eltwise", "qgemm", "quantized"),
    # The table of all operators.
    "kernels/op_registry.c": {"runtime", "kernels"}
    | _kernels("dtype_sets.h", "lib", "op", "op/attention", "op/conv", "op/pool", "op/quantized"),
    "backends/demo": {"runtime"},
    "backends/reference": {"runtime"},
    # Files that all rooms of the delegate share.
    f"{_XNN}/et_xnnpack.h": {"runtime"},
    f"{_XNN}/alloc_region.h": set(),
    f"{_XNN}/alloc_region.c": {"runtime"} | _xnn("alloc_region.h"),
    f"{_XNN}/xnn_status.h": {"runtime"},
    f"{_XNN}/xnn_status.c": {"runtime"} | _xnn("xnn_status.h"),
    f"{_XNN}/payload": {"runtime"},
    f"{_XNN}/tuned": {"runtime"} | _kernels("micro") | _micro("qgemm"),
    f"{_XNN}/subgraph": {"runtime", *_xnn("payload", "tuned", "xnn_status.c", "xnn_status.h")},
    f"{_XNN}/weights": {"runtime"} | _xnn("alloc_region.c", "alloc_region.h", "et_xnnpack.h"),
    _XNN: {"runtime", *_xnn("subgraph", "tuned", "weights", "et_xnnpack.h")}
    | _xnn("alloc_region.c", "alloc_region.h", "xnn_status.c", "xnn_status.h"),
    # The table of delegates.
    "backends": {"runtime", "backends/demo", "backends/reference", _XNN},
    # Language models: a layer above the runtime that knows no kernel.
    "llm": {"runtime"},
    "llm/text": {"runtime"},
    "llm/pattern": {"runtime", "llm/text"},
    "llm/tokenizer": {"runtime", "llm", "llm/text", "llm/pattern"},
    "llm/formats": {"runtime", "llm", "llm/text", "llm/pattern", "llm/tokenizer"},
    "llm/sampler": {"runtime", "llm"},
    "llm/session": {"runtime", "llm"},
    "llm/generation": {"runtime", "llm", "llm/text", "llm/tokenizer", "llm/sampler"},
    "llm/chat": {"runtime", "llm", "llm/text", "llm/tokenizer"},
    "cmake": set(),
    "tools": {"runtime", "runtime/signature", "backends"} | _kernels("micro", "op_registry.c"),
    "bindings": {
        "runtime",
        "runtime/signature",
        "runtime/training",
        "kernels",
        "kernels/op_registry.c",
        "backends",
        "tools",
        "llm",
        "llm/formats",
        "llm/generation",
        "llm/sampler",
        "llm/tokenizer",
        _XNN,
    }
    | _xnn("et_xnnpack.h", "weights"),
}

# ---- Python: modules and packages. Imports within a room are allowed.

_EXIR = "executorch_py.exir"
_XNNPACK = "executorch_py.backends.xnnpack"
_LLM = "executorch_py.extension.llm"


def _exir(*rooms: str) -> set[str]:
    return _in(_EXIR, ".", rooms)


def _passes(*rooms: str) -> set[str]:
    return _in(f"{_EXIR}.passes", ".", rooms)


def _xnnpack(*rooms: str) -> set[str]:
    return _in(_XNNPACK, ".", rooms)


PYTHON_ARROWS: dict[str, set[str]] = {
    # The extension, errors, files that are replaced in one step, and the table of upstream's paths,
    # which every room may import.
    "executorch_py": set(),
    "executorch_py.runtime": {"executorch_py"},
    "executorch_py.toolchain": {"executorch_py", "executorch_py.runtime"},
    # Two commands of all need an exporter, and one sessions, which they import when they run.
    "executorch_py.cli": {"executorch_py", "executorch_py.runtime", "executorch_py.toolchain"}
    | {"executorch_py.export.command_line"}
    | {"executorch_py.extension.llm.export", "executorch_py.extension.llm.session"}
    | {
        "executorch_py.extension.llm.chat",
        "executorch_py.extension.llm.runner",
        "executorch_py.extension.llm.sampler",
        "executorch_py.extension.llm.serve",
        "executorch_py.extension.llm.tokenizer",
    },
    "executorch_py.__main__": {"executorch_py.cli"},
    # The exporter, from errors and schema to the stages that users call.
    f"{_EXIR}.error": set(),
    f"{_EXIR}.schema": set(),
    f"{_EXIR}.settings_check": set(),
    f"{_EXIR}._warnings": set(),
    f"{_EXIR}.control_flow": _exir("error"),
    # Errors of torch.export, which every package that calls it may explain.
    f"{_EXIR}.trace_advice": set(),
    f"{_EXIR}.trace_errors": _exir("error", "trace_advice"),
    f"{_EXIR}.ir": {"executorch_py"} | _exir("error", "schema"),
    f"{_EXIR}.target": {"executorch_py"} | _exir("error", "ir"),
    f"{_EXIR}.dialects": _exir("error", "ir", "target"),
    f"{_EXIR}.serialize": {"executorch_py"} | _exir("ir", "schema"),
    f"{_EXIR}.memory": _exir("error", "ir", "schema"),
    f"{_EXIR}.inspect": _exir("ir"),
    f"{_EXIR}.print_program": {"executorch_py"} | _exir("error", "schema"),
    f"{_EXIR}.backend": {"executorch_py"} | _exir("error", "ir", "schema", "serialize"),
    f"{_EXIR}.decompose": _exir("dialects", "ir"),
    f"{_EXIR}.passes.base": _exir("ir"),
    # Checks name the few passes whose results they allow for; settings name the planner's pass.
    f"{_EXIR}.passes.checks": _exir("dialects", "error", "ir")
    | _passes("base", "inplace", "lower", "to_edge"),
    f"{_EXIR}.passes.settings": _exir("ir", "memory") | _passes("lower"),
    f"{_EXIR}.passes.runner": _passes("base", "checks"),
    f"{_EXIR}.passes.fuse": _exir("dialects", "ir") | _passes("base"),
    f"{_EXIR}.passes.inplace": _exir("dialects", "error", "ir", "memory") | _passes("base"),
    f"{_EXIR}.passes.lower": _exir("dialects", "error", "ir", "memory", "settings_check")
    | _passes("base"),
    f"{_EXIR}.passes.quantized": _exir("dialects", "ir", "schema") | _passes("base", "user"),
    f"{_EXIR}.passes.simplify": _exir("ir") | _passes("base"),
    f"{_EXIR}.passes.to_edge": _exir("dialects", "error", "ir") | _passes("base"),
    # Bases of users' passes that do what passes of the exporter do.
    f"{_EXIR}.passes.user": _exir("dialects", "error", "ir") | _passes("base", "lower", "to_edge"),
    f"{_EXIR}.passes.to_edge.steps": _passes("base", "lower", "runner", "simplify", "to_edge"),
    f"{_EXIR}.passes": {"executorch_py"}
    | _exir("ir")
    | _passes("base", "runner", "settings", "fuse", "inplace", "lower", "quantized", "simplify")
    | _passes("to_edge", "to_edge.steps", "user"),
    f"{_EXIR}.emit": _exir("error", "ir", "memory", "schema", "serialize"),
    f"{_EXIR}.program": {"executorch_py"}
    | _exir("error", "schema", "ir", "dialects", "target", "print_program", "settings_check")
    | _exir("serialize", "backend", "decompose", "passes", "emit")
    | _passes("base", "lower", "runner", "to_edge", "to_edge.steps", "user"),
    f"{_EXIR}.capture": _exir("error", "program"),
    _EXIR: {"executorch_py"} | _exir("capture", "emit", "program", "trace_errors"),
    # Packages above the exporter.
    "executorch_py.quantizer": _exir("ir", "settings_check", "trace_errors") | _passes("quantized"),
    # Verifiers read the tables of a file, and write files of single delegates.
    "executorch_py.testing": {_EXIR}
    | _exir("schema", "ir", "dialects", "memory", "backend", "serialize", "program"),
    "executorch_py.devtools": {"executorch_py"} | _exir("ir", "schema", "serialize", "program"),
    "executorch_py.export": {"executorch_py.quantizer", "executorch_py.runtime"}
    | _exir("schema", "inspect", "backend", "program", "trace_errors"),
    "executorch_py.util": {"executorch_py"} | _exir("memory", "program"),
    "executorch_py.kernels": _exir("dialects"),
    "executorch_py.extension": {"executorch_py", "executorch_py.runtime", "executorch_py.devtools"}
    | {_EXIR, *_exir("dialects", "serialize"), *_passes("user")},
    # Exports of language models choose a target, and delegate where its runtime has a delegate.
    # They fuse before decompositions, whose time grows with the number of nodes.
    "executorch_py.extension.llm.session": {"executorch_py", "executorch_py.runtime"},
    "executorch_py.extension.llm.tokenizer": {"executorch_py"},
    "executorch_py.extension.llm.sampler": {"executorch_py"},
    "executorch_py.extension.llm.chat": {"executorch_py", "executorch_py.extension.llm.tokenizer"},
    "executorch_py.extension.llm.runner": {
        "executorch_py",
        "executorch_py.runtime",
        "executorch_py.extension.llm.chat",
        "executorch_py.extension.llm.sampler",
        "executorch_py.extension.llm.session",
        "executorch_py.extension.llm.tokenizer",
    },
    # A server of runners, which knows no more of a model than they do.
    "executorch_py.extension.llm.serve": {
        "executorch_py",
        "executorch_py.runtime",
        "executorch_py.extension.llm.chat",
        "executorch_py.extension.llm.runner",
        "executorch_py.extension.llm.sampler",
        "executorch_py.extension.llm.session",
        "executorch_py.extension.llm.tokenizer",
    },
    "executorch_py.extension.llm.export": {"executorch_py", "executorch_py.extension", _EXIR}
    | {"executorch_py.util", *_exir("dialects", "ir", "passes", "program"), *_passes("fuse")}
    | {"executorch_py.extension.llm.chat", "executorch_py.extension.llm.tokenizer"}
    | _xnnpack("partition", "quantizer"),
    # Names of optimum-executorch, over the exports of language models and their sessions.
    "executorch_py.optimum": {"executorch_py", "executorch_py.runtime", "executorch_py.extension"}
    | {"executorch_py.extension.llm.export", "executorch_py.extension.llm.session"}
    | {_EXIR, *_xnnpack("partition")},
    # Backends ahead of time.
    "executorch_py.backends": set(),
    "executorch_py.backends.transforms": _exir("dialects", "ir") | _passes("to_edge", "user"),
    "executorch_py.backends.reference": _exir("backend", "emit", "ir", "schema", "serialize"),
    # Payloads with more results, which the exporter's verifiers run, are described in its terms.
    f"{_XNNPACK}.payload": _exir("backend", "error", "ir", "schema", "serialize"),
    f"{_XNNPACK}.ops": _exir("ir") | _xnnpack("payload"),
    # A partition has the exporter's passes, run and checked as the exporter does.
    f"{_XNNPACK}.passes": _exir("error")
    | _passes("base", "checks", "fuse", "runner", "simplify")
    | _xnnpack("payload"),
    f"{_XNNPACK}.support": _exir("error", "ir") | _xnnpack("ops"),
    f"{_XNNPACK}.preprocess": _exir("backend", "schema") | _xnnpack("ops", "passes", "payload"),
    f"{_XNNPACK}.partition": _exir("backend", "decompose", "dialects", "ir", "settings_check")
    | _passes("simplify")
    | _xnnpack("preprocess", "support"),
    f"{_XNNPACK}.utils": _exir("ir", "program"),
    f"{_XNNPACK}.quantizer": {"executorch_py.quantizer"}
    | _exir("decompose", "ir")
    | _xnnpack("partition", "support"),
    _XNNPACK: _xnnpack("partition", "preprocess", "utils"),
    "executorch_py.export.command_line": {"executorch_py.quantizer", "executorch_py.runtime"}
    | {"executorch_py.export.example_inputs"}
    | _exir("program", "trace_errors")
    | _xnnpack("partition", "quantizer"),
    "executorch_py.export.example_inputs": {"executorch_py"},
    f"{_XNNPACK}.recipes": {"executorch_py.export"} | _xnnpack("partition", "quantizer", "utils"),
}

# (importer, imported): imports that point up, in functions or for types alone, each a convenience
# that users expect below: a method of a program that calls what stands on programs.
LAZY_UPWARD: set[tuple[str, str]] = {
    ("executorch_py", "executorch_py.runtime"),
    ("executorch_py", "executorch_py.toolchain.sources"),
    # A program's methods run and verify it and record its export; that code is above it.
    (f"{_EXIR}.program.upper_floors", "executorch_py.runtime"),
    (f"{_EXIR}.program.upper_floors", "executorch_py.testing.parity"),
    (f"{_EXIR}.program.upper_floors", "executorch_py.devtools.etrecord"),
    # A delegate lowers itself alone, as upstream's LoweredBackendModule.buffer() does.
    (f"{_EXIR}.backend.lowered_module", f"{_EXIR}.program"),
    (f"{_EXIR}.backend.lowered_module", f"{_EXIR}.program.config"),
    # A configuration is made from arguments by a class method, as upstream's is.
    (f"{_LLM}.export.config.llm_config", f"{_LLM}.export.config.from_args"),
    # Operators are kept whole for a partitioner, which is named as a type.
    (f"{_EXIR}.decompose.keep_ops", f"{_EXIR}.backend.partitioner"),
    ("executorch_py.quantizer", f"{_XNNPACK}.quantizer.validate"),
    ("executorch_py.quantizer", f"{_XNNPACK}.quantizer.xnnpack_quantizer"),
}

# ---- Tests: folders, and modules beside them, that import helpers of another folder. Every one
# may import `support`, which imports nothing but itself.

TEST_ARROWS: dict[str, set[str]] = {
    "backends": {"models"},
    "bench": {"models"},
    # Programs that write over their operands and their state.
    "exir": {"interop", "models"},
    "extension": {"models"},
    "interop": {"models"},
    "quantizer": {"models"},
    "test_conftest": {"conftest"},
    "test_operator_coverage": {"kernels"},
    "toolchain": {"models"},
}
