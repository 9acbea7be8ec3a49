"""`executorch_py export module:Model --input 1x3x224x224`: from a model to a `.pte` file.

The stages are those of a script: example inputs, torch.export, quantization if asked for, a
backend, verification against eager torch, and the file last, so that a failure leaves no file.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import logging
import pkgutil
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from executorch_py.exir.program.edge import to_edge
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.program.lower import to_edge_transform_and_lower
from executorch_py.exir.trace_errors import TraceError, readable_errors
from executorch_py.export.example_inputs import Examples, calibration_samples, example_inputs
from executorch_py.runtime import Runtime

# The signature of any call.
_BOTH = inspect.signature(lambda *args, **kwargs: None)


def export_model(options: Namespace) -> int:
    """Export the model of the options to a file; returns 0, or raises what went wrong."""
    output = Path(options.output) if options.output else Path(f"{_stem(options.model)}.pte")
    with quiet(options.verbose):
        model, exported, examples = _exported(options)
        reference = model
        if options.quantize:
            exported = _quantized(exported, examples, options)
            reference = exported.module()
        program = _lowered(exported, options.backend)
    print(Runtime.get().load_program(program.buffer).signature)
    if options.verify:
        print(program.verify(reference, *examples.args, **examples.kwargs))
    program.save(output)
    program.write_tensor_data_to_file(output.parent)
    _print_result(program, output, options)
    return 0


def _print_result(program: ExecutorchProgramManager, output: Path, options: Namespace) -> None:
    print(f"saved {output}: {len(program.buffer):,} bytes, backend {options.backend}")
    if not options.verify:
        print("not compared with eager torch: --verify does that")
    print(f"run it: executorch_py run {output} --random")


def _stem(model: str) -> str:
    """A file name for a model: `resnet18` for `torchvision.models:resnet18`."""
    file, _, name = model.rpartition(":")
    return name.rpartition(".")[2].lower() if file else Path(model).stem


# ---- the model


def _exported(options: Namespace) -> tuple[Any, ExportedProgram, Examples]:
    """The eager model, its exported program, and the example inputs."""
    if options.model.endswith(".pt2"):
        if options.input or options.dynamic:
            raise ValueError(
                "--input, --dynamic: expected neither with a .pt2 file, which has its inputs, got "
                f"{[*(options.input or []), *(options.dynamic or [])]}: leave them out"
            )
        if not Path(options.model).is_file():
            raise FileNotFoundError(f"MODEL: there is no file {options.model!r}")
        exported = torch.export.load(options.model)
        args, kwargs = exported.example_inputs or ((), {})
        return exported.module(), exported, Examples(args, kwargs, None)
    model = load_model(options.model)
    examples = example_inputs(model, options.input, options.dynamic)
    more = "add --verbose"
    with torch.no_grad(), readable_errors(options.verbose, more):
        exported = torch.export.export(
            model, examples.args, examples.kwargs, dynamic_shapes=examples.shapes
        )
    return model, exported, examples


def load_model(name: str) -> nn.Module:
    """The model that `module:name` or `file.py:name` names, in evaluation mode.

    The name is a module's object, or a class or function that makes one without arguments.
    """
    where, _, path = name.rpartition(":")
    if not where or not path:
        raise ValueError(
            "MODEL: expected module:Model, file.py:Model, or a file of torch.export.save() that "
            f"ends in .pt2, got {name!r}"
        )
    found: Any = _module(where)
    for part in path.split("."):
        if not hasattr(found, part):
            models = [key for key, value in vars(found).items() if _is_model(value)]
            hint = f"; it has {', '.join(models[:8])}" if models else ""
            raise ValueError(f"MODEL: expected {path!r} in {where}, got no such name{hint}")
        found = getattr(found, part)
    if not isinstance(found, nn.Module) and callable(found):
        try:
            found = found()
        except TypeError as error:
            raise ValueError(
                f"MODEL: expected {path} to need no arguments, got: {error}; name a function "
                "without arguments that returns the model"
            ) from error
    if not isinstance(found, nn.Module):
        raise TypeError(
            f"MODEL: expected a torch.nn.Module, its class, or a function that returns one, got a "
            f"{type(found).__name__}"
        )
    return found.eval()


def _is_model(value: Any) -> bool:
    return isinstance(value, nn.Module) or (
        isinstance(value, type) and issubclass(value, nn.Module) and value is not nn.Module
    )


def _module(where: str) -> Any:
    """A module by its name or by its file; the working folder is searched first."""
    if not where.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")
        try:
            return pkgutil.resolve_name(f"{where}:")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{where}.".startswith(f"{error.name}."):
                raise
            raise ValueError(
                f"MODEL: expected a module {where!r} that can be imported from here, got none: "
                "give its file, as in folder/file.py:Model"
            ) from None
    path = Path(where).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"MODEL: there is no file {where!r}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


# ---- quantization and lowering


def _quantized(exported: ExportedProgram, examples: Examples, options: Namespace) -> Any:
    """The exported program of the quantized model."""
    from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer
    from executorch_py.quantizer import (
        calibrate,
        convert_pt2e,
        get_symmetric_quantization_config,
        prepare_pt2e,
    )

    is_dynamic = options.quantize == "int8-dynamic"
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
    prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(config))
    samples = calibration_samples(options.calibrate, examples)
    if not options.calibrate and not is_dynamic:
        print("calibrated on random inputs: give real ones with --calibrate, or accuracy is lost")
    calibrate(prepared, [_BOTH.bind(*sample.args, **sample.kwargs) for sample in samples])
    with torch.no_grad(), readable_errors(options.verbose, "add --verbose"):
        return torch.export.export(
            convert_pt2e(prepared), examples.args, examples.kwargs, dynamic_shapes=examples.shapes
        )


def _lowered(exported: ExportedProgram, backend: str) -> ExecutorchProgramManager:
    if backend == "portable":
        return to_edge(exported).to_executorch()
    from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    return edge.to_executorch()


# ---- messages of other packages


@contextlib.contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Without warnings and logs of torch and transformers; prints are dropped with a TraceError."""
    if verbose:
        yield
        return
    printed = io.StringIO()
    drop = False
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(printed):
            for package in ("torch", "torchao", "transformers"):
                warnings.filterwarnings("ignore", module=rf"{package}\b")
            yield
    except TraceError:
        drop = True
        raise
    finally:
        logging.disable(logging.NOTSET)
        if not drop:
            sys.stderr.write(printed.getvalue())
