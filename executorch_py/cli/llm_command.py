"""`executorch_py llm`: its errors as messages. The work is in executorch_py/extension/llm."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

from executorch_py.cli.export_command import with_messages
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
    is_gguf = source.is_file() and source.suffix == ".gguf"
    if not is_gguf and not (source / "config.json").is_file():
        raise ValueError(
            "MODEL: expected a folder with config.json and weights or a .gguf file, "
            f"got {quoted(str(source))}"
        )
    name = source.stem if is_gguf else source.resolve().name
    output = options.output or f"{name}.pte"
    check_output(output, ".pte")
    return with_messages(options, lambda: _export(options, source, output))


def _export(options: argparse.Namespace, source: Path, output: str) -> int:
    from executorch_py.export.command_line import quiet
    from executorch_py.extension.llm.export import export_folder

    with quiet(options.verbose):
        program = export_folder(
            source,
            capacity=options.context,
            prefill=options.prefill,
            cache=options.cache,
            group=None if options.float else options.group,
            all_logits=options.all_logits,
            report=lambda line: print(line, flush=True),
        )
    program.save(output)
    print(f"saved {output}: {os.path.getsize(output) / 10**6:.1f} MB")
    return 0
