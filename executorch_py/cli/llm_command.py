"""`executorch_py llm`: its errors as messages. The work is in executorch_py/extension/llm."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from executorch_py.cli.export_command import error_text
from executorch_py.cli.run import check_output
from executorch_py.terminal_text import quoted

_LEAST_TOKENS = 4  # that the traced range of lengths needs


def llm(options: argparse.Namespace) -> int:
    """Export a language model; any failure is a message, and with --verbose a traceback as well."""
    for name, extra in (("torch", "export"), ("transformers", "demo")):
        if importlib.util.find_spec(name) is None:
            raise RuntimeError(
                f"expected {name} to be installed, got none: pip install 'executorch_py[{extra}]'"
            )
    for name, least in (("context", _LEAST_TOKENS), ("prefill", _LEAST_TOKENS), ("group", 1)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name}: expected {least} or more, got {getattr(options, name)}")
    source = Path(options.source)
    if not (source / "config.json").is_file() and not (source.is_file() and _is_gguf(source)):
        raise ValueError(
            "MODEL: expected a folder with config.json and weights or a .gguf file, "
            f"got {quoted(str(source))}"
        )
    name = source.stem if source.is_file() else source.resolve().name
    output = options.output or f"{name}.pte"
    check_output(output, ".pte")
    try:
        with _quiet(options.verbose):
            _export(options, source, output)
        return 0
    except Exception as error:
        # Anything may be raised here: transformers builds the model.
        if options.verbose:
            traceback.print_exc()
        print(f"executorch_py llm: {error_text(error)}", file=sys.stderr)
        return 1


def _is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf"


def _export(options: argparse.Namespace, source: Path, output: str) -> None:
    from executorch_py.extension.llm.export import export_folder

    program = export_folder(
        source,
        capacity=options.context,
        prefill=options.prefill,
        cache=options.cache,
        group=None if options.float else options.group,
        report=lambda line: print(line, flush=True),
    )
    program.save(output)
    print(f"saved {output}: {os.path.getsize(output) / 10**6:.1f} MB")


@contextlib.contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Without --verbose, warnings and logs of torch and transformers are left out."""
    if verbose:
        yield
        return
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
