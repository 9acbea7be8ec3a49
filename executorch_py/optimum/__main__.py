"""The command line of optimum-executorch: python -m executorch_py.optimum export executorch …"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from executorch_py.atomic_file import replacing
from executorch_py.errors import ExecutorchError, NotFound
from executorch_py.optimum.causal_lm import FILE
from executorch_py.optimum.options import OWN, UPSTREAM, ExportOptions

_FLAGS = ("use_custom_sdpa", "use_custom_kv_cache", "disable_dynamic_shapes")
_NUMBERS = ("qlinear_group_size", "qembedding_group_size", "max_seq_len")
_TEXTS = ("task", "recipe", "qlinear", "qembedding", "dtype", "device", "gguf_file", "target")
_HELP = {
    "task": "text-generation (the default)",
    "recipe": "xnnpack (the default) or portable",
    "qlinear": "8da4w, 8da8w, 4w or 8w: weights of linear layers in 4 or 8 bits; or two of them, "
    "a,b: b where the group size of a does not divide a layer's inputs",
    "qlinear_group_size": "weights of a row that share a scale; 0: all",
    "qembedding_group_size": "the same for tables",
    "qembedding": "4w or 8w: tables in 4 or 8 bits",
    "dtype": f"float32 (the default), or for {UPSTREAM} float16 or bfloat16",
    "max_seq_len": "positions of the caches",
    "gguf_file": "name of a GGUF file in the folder",
    "target": f"{OWN} (the default: this runtime) or {UPSTREAM} (a file for upstream's)",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m executorch_py.optimum")
    export = parser.add_subparsers(required=True).add_parser("export")
    command = export.add_subparsers(required=True).add_parser(
        "executorch", help=f"export a model to DIR/{FILE}"
    )
    command.add_argument("--model", "-m", required=True, type=Path, help="a folder of transformers")
    command.add_argument("--output_dir", "-o", required=True, type=Path, metavar="DIR")
    for name in _TEXTS:
        command.add_argument(f"--{name}", default=None, help=_HELP.get(name))
    for name in _NUMBERS:
        command.add_argument(f"--{name}", type=int, default=None, help=_HELP.get(name))
    for name in _FLAGS:
        command.add_argument(f"--{name}", action="store_true", default=None)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """0, or 1 after a message."""
    given = vars(_parser().parse_args(arguments))
    model, output = given.pop("model"), given.pop("output_dir")
    try:
        options = ExportOptions.of({k: v for k, v in given.items() if v is not None})
        if not model.is_dir():
            raise NotFound(
                f"--model: expected a folder of transformers, got {str(model)!r} "
                "[NotFound, error: 0x20]"
            )
        from executorch_py.optimum.export import export_program

        content = export_program(model, options)
        output.mkdir(parents=True, exist_ok=True)
        with replacing(output / FILE) as file:
            file.write(content)
    except (ExecutorchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"saved {output / FILE}: {len(content) / 10**6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
