"""Arguments of the command line, and how failures are told: one line on stderr, exit code 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from executorch_py import __version__


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="executorch_py", description="Run and inspect .pte programs. Needs NumPy only."
    )
    parser.add_argument("--version", action="version", version=f"executorch_py {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a method and show or save its outputs")
    run.add_argument("file", help="the .pte program")
    run.add_argument(
        "inputs",
        nargs="*",
        help=".npy files, one per input, or one .npz (by input name, else in its order); "
        "scalar inputs come from the program",
    )
    made_up = run.add_mutually_exclusive_group()
    made_up.add_argument("--random", action="store_true", help="fill inputs with seeded noise")
    made_up.add_argument("--ones", action="store_true", help="fill inputs with ones")
    run.add_argument("--seed", type=int, default=0, help="of --random (default 0)")
    run.add_argument("--method", help="default: forward, or the only method")
    run.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times and time it")
    run.add_argument("--profile", action="store_true", help="show what each operator took")
    run.add_argument("--threads", type=int, default=None, help="default: all CPUs of this process")
    run.add_argument("--data", action="append", default=[], metavar="PTD", help="external weights")
    run.add_argument("--output", metavar="NPZ", help="save outputs here, by their names")
    run.add_argument("--print", action="store_true", dest="show", help="print whole outputs")

    inspect = commands.add_parser("inspect", help="show what a program contains and needs")
    inspect.add_argument("file", help="the .pte program")
    inspect.add_argument("--json", action="store_true", help="the same as JSON")

    doctor = commands.add_parser("doctor", help="show what is installed and what is missing")
    doctor.add_argument("--json", action="store_true", help="the same as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        if options.command == "run":
            from executorch_py.cli.run import run

            return run(options)
        if options.command == "inspect":
            from executorch_py.cli.inspect import inspect

            return inspect(options)
        from executorch_py.cli.doctor import doctor

        return doctor(options)
    except (OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
        print(f"executorch_py {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
