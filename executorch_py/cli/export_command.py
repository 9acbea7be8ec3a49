"""`executorch_py export`: its errors as messages. The work is in executorch_py/export."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable

from executorch_py.cli.run import check_output
from executorch_py.terminal_text import message_text


def export(options: argparse.Namespace) -> int:
    """Export a model; any failure is a message, and with --verbose a traceback as well."""
    if importlib.util.find_spec("torch") is None:
        raise RuntimeError(
            "expected torch to be installed, got none: pip install 'executorch_py[export]'"
        )
    if options.calibrate and options.quantize != "int8":
        raise ValueError("--calibrate: expected --quantize int8 beside it, got none")
    if options.output:
        check_output(options.output, ".pte")

    def work() -> int:
        from executorch_py.export.command_line import export_model

        return export_model(options)

    return with_messages(options, work)


def with_messages(options: argparse.Namespace, work: Callable[[], int]) -> int:
    """Runs a command that may raise anything, as the model's own code runs; returns exit codes."""
    try:
        return work()
    except Exception as error:
        if options.verbose:
            traceback.print_exc()
        print(f"executorch_py {options.command}: {_text(error)}", file=sys.stderr)
        return 1


def _text(error: Exception) -> str:
    """The message without the code that ExportError puts before it; foreign errors have a name."""
    text = message_text(re.sub(r"^\[ExportErrorType\.\w+\]: ", "", str(error)))
    own = type(error).__module__.startswith("executorch_py") or text.startswith(("--", "MODEL"))
    return text if own else f"{type(error).__name__}: {text} (--verbose shows where)"
