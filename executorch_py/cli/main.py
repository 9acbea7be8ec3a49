"""Arguments of the command line, and its errors: one line on stderr, exit code 1."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from executorch_py import __version__
from executorch_py.cli.serve_command import add_serve
from executorch_py.terminal_text import message_text


def build_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        prog="executorch_py",
        description="Export, run and inspect .pte programs. All but export need NumPy only.",
    )
    parser.add_argument("--version", action="version", version=f"executorch_py {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    add_run(commands.add_parser)

    inspect = commands.add_parser("inspect", help="show the contents and needs of a program")
    inspect.add_argument("file", help="the .pte program")
    add_ops(inspect)
    inspect.add_argument(
        "--bank",
        action="append",
        default=[],
        metavar="NAME:MEMORY:BYTES",
        help="name and size of a planned memory of the target, e.g. sram:1:65536; repeat it",
    )
    inspect.add_argument("--json", action="store_true", help="print JSON")

    pack = commands.add_parser("pack", help="write XNNPACK's packed weights of a program to a file")
    pack.add_argument("file", help="the .pte program")
    pack.add_argument("--output", "-o", metavar="FILE", help="default: the program's name, .packed")
    pack.add_argument("--data", action="append", default=[], metavar="PTD", help="external weights")
    add_ops(pack)

    doctor = commands.add_parser("doctor", help="show installed and missing parts")
    add_ops(doctor)
    doctor.add_argument("--json", action="store_true", help="print JSON")

    ops = commands.add_parser("build-ops", help="build a library of operators from your C file")
    ops.add_argument("sources", nargs="*", metavar="FILE.c", help="C files with kernels")
    ops.add_argument("-o", "--output", metavar="FILE.so", help="default: the C file's name")
    ops.add_argument("--cc", help="the C compiler (default: $CC, else cc)")
    ops.add_argument(
        "--flag", action="append", default=[], help="one more compiler flag (--flag=-march=native)"
    )
    ops.add_argument("--example", action="store_true", help="print a C file to start from")
    ops.add_argument("--include", action="store_true", help="print the folder of the headers")
    add_build_kernels(commands.add_parser)
    add_export(commands.add_parser)
    add_llm(commands.add_parser)
    completion = commands.add_parser("completion", help="print completions for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def add_run(add: Callable[..., argparse.ArgumentParser]) -> None:
    run = add("run", help="run a method and show or save its outputs")
    run.add_argument("file", help="the .pte program")
    run.add_argument(
        "inputs",
        nargs="*",
        help=".npy files, one per input, or one .npz (by input name, else in its order); "
        "scalar inputs come from the program",
    )
    synthetic = run.add_mutually_exclusive_group()
    synthetic.add_argument("--random", action="store_true", help="fill inputs with seeded noise")
    synthetic.add_argument("--ones", action="store_true", help="fill inputs with ones")
    run.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=1x3x224x224",
        help="sizes of an input, filled with noise (or ones with --ones); by default the smallest "
        "that are useful",
    )
    run.add_argument("--seed", type=int, default=0, help="seed of --random (default 0)")
    run.add_argument("--method", help="default: forward, or the only method")
    run.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times and time it")
    run.add_argument("--profile", action="store_true", help="show the time of each operator")
    run.add_argument("--threads", type=int, default=None, help="default: all CPUs of this process")
    run.add_argument("--data", action="append", default=[], metavar="PTD", help="external weights")
    add_ops(run)
    run.add_argument("--output", metavar="NPZ", help="save outputs here, by their names")
    run.add_argument("--print", action="store_true", dest="show", help="print whole outputs")


def add_export(add: Callable[..., argparse.ArgumentParser]) -> None:
    export = add("export", help="export a PyTorch model to a .pte program, without a script")
    export.add_argument(
        "model",
        metavar="MODEL",
        help="module:Model, file.py:Model (an nn.Module, or what makes one without arguments), or "
        "a .pt2 file",
    )
    export.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]SHAPE[:DTYPE]",
        help="an example input, such as 1x3x224x224 or ids=1x128:int64, or a .npy or .pt file; "
        "repeat in the order of the model's arguments",
    )
    export.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="NAME.DIM=MIN..MAX",
        help="a size that runs may choose, such as images.0=1..64; equal ones with commas",
    )
    export.add_argument(
        "--quantize", choices=("int8", "int8-dynamic"), help="quantize weights and activations"
    )
    export.add_argument(
        "--calibrate",
        action="append",
        default=[],
        metavar="FILE",
        help="inputs for --quantize int8: .npy or .npz files, rows being samples",
    )
    export.add_argument(
        "--backend", choices=("portable", "xnnpack"), default="portable", help="default: portable"
    )
    export.add_argument("--output", "-o", metavar="PTE", help="default: the model's name")
    export.add_argument("--verify", action="store_true", help="compare with eager torch first")
    export.add_argument("--verbose", action="store_true", help="print torch's own messages")


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="tokenizer.json, the folder that has one, or another format (default: the program's)",
    )


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """The tokenizer, and how tokens are drawn."""
    add_tokenizer(parser)
    add = parser.add_argument
    add("--tokens", type=int, metavar="N", help="of a text (default: until the context is full)")
    add("--temperature", type=float, default=0.0, metavar="T", help="default 0: the greatest logit")
    for name, kind, default in (("top-k", int, 0), ("top-p", float, 1.0), ("min-p", float, 0.0)):
        add(f"--{name}", type=kind, default=default, metavar="X")
    add("--seed", type=int, default=0, metavar="N")
    add(
        "--eos",
        type=int,
        action="append",
        metavar="ID",
        help="ends a text (default: the program's)",
    )


def add_llm_text(add: Callable[..., argparse.ArgumentParser]) -> None:
    run = add("run", help="generate text after a prompt")
    run.add_argument("file", metavar="PTE")
    run.add_argument("prompt", metavar="PROMPT", help="text, or - for standard input")
    add_sampling(run)
    run.add_argument("--stop", action="append", default=[], metavar="TEXT", help="may be repeated")
    run.add_argument("--ignore-eos", action="store_true", help="go on behind the end of a text")
    run.add_argument(
        "--draft",
        default="auto",
        metavar="PTE",
        help="a smaller model that drafts, lookup, or none (default: lookup if the program can)",
    )
    run.add_argument("--stats", action="store_true", help="print times to standard error")
    chat = add("chat", help="answer questions on the terminal, or from standard input")
    chat.add_argument("file", metavar="PTE")
    chat.add_argument("--system", metavar="TEXT", help="a system message before all others")
    chat.add_argument(
        "--template",
        metavar="FILE",
        help="a chat template of Jinja, or the folder that has one (default: the program's)",
    )
    add_sampling(chat)
    perplexity = add("perplexity", help="print how well a program predicts a text")
    perplexity.add_argument("file", metavar="PTE")
    perplexity.add_argument("text", metavar="TEXTFILE", help="in UTF-8, or - for standard input")
    add_tokenizer(perplexity)
    perplexity.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="tokens read from an empty context, of which the second half is predicted (512)",
    )
    tokenize = add("tokenize", help="print the tokens of a text")
    tokenize.add_argument("tokenizer", metavar="TOKENIZER")
    tokenize.add_argument("text", metavar="TEXT", help="text, or - for standard input")
    tokenize.add_argument(
        "--special", action="store_true", help="names of special tokens in the text are tokens"
    )


def add_llm(add: Callable[..., argparse.ArgumentParser]) -> None:
    llm = add("llm", help="export, run and measure language models")
    actions = llm.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser(
        "export", help="export a decoder of transformers: tokens in, logits out, caches kept"
    )
    export.add_argument(
        "source", metavar="MODEL", help="a folder with config.json and safetensors, or a .gguf file"
    )
    export.add_argument("--output", "-o", metavar="PTE", help="default: the model's name")
    export.add_argument(
        "--context", type=int, default=2048, metavar="N", help="positions (default 2048)"
    )
    export.add_argument(
        "--prefill",
        type=int,
        default=512,
        metavar="N",
        help="most tokens of one call (default 512); longer prompts take several calls",
    )
    export.add_argument(
        "--cache",
        choices=("f32", "f16", "i8"),
        help="type of cached keys and values (default f16, with --float f32)",
    )
    weights = export.add_mutually_exclusive_group()
    weights.add_argument(
        "--group", type=int, default=32, metavar="N", help="4-bit weights with a scale for each N"
    )
    weights.add_argument("--float", action="store_true", help="weights of f32")
    export.add_argument(
        "--all-logits",
        action="store_true",
        help="return the logits of each token of a call, not of the last one only",
    )
    export.add_argument(
        "--verify",
        type=int,
        default=16,
        metavar="N",
        help="add a method that checks drafts of up to N tokens (default 16, 0: none)",
    )
    export.add_argument("--verbose", action="store_true", help="print torch's own messages")
    add_llm_text(actions.add_parser)
    add_serve(actions.add_parser)
    add_bench(actions.add_parser)


def add_bench(add: Callable[..., argparse.ArgumentParser]) -> None:
    bench = add("bench", help="speed and memory of a decoder's program")
    bench.add_argument("file", metavar="PTE")
    for name, default, what in (
        ("prompt", 128, "tokens that are read at once"),
        ("steps", 64, "single tokens behind them"),
        ("rounds", 5, "of which the medians are printed"),
    ):
        bench.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{what} (default {default})"
        )
    bench.add_argument("--threads", type=int, help="default: all CPUs of this process")
    bench.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="PEER=FILE,…",
        help="time llama.cpp=MODEL.gguf and upstream=OTHER.pte by turns with the program",
    )
    bench.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PEER=PYTHON",
        help="the interpreter that has a peer's package (default: this one)",
    )


def add_build_kernels(add: Callable[..., argparse.ArgumentParser]) -> None:
    kernels = add("build-kernels", help="build the runtime with the kernels of given programs only")
    kernels.add_argument(
        "--from",
        action="extend",
        nargs="+",
        required=True,
        metavar="PTE",
        dest="programs",
        help="programs whose operators and types are kept",
    )
    kernels.add_argument("--out", required=True, metavar="DIR", help="folder of the build")
    kernels.add_argument(
        "--ops",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE.c",
        help="C files with kernels of your own (made for build-ops), linked in",
    )
    kernels.add_argument("--cc", help="the C compiler (default: $CC, else cc)")
    kernels.add_argument(
        "--flag", action="append", default=[], help="a compiler flag, instead of -Os (--flag=-O2)"
    )
    kernels.add_argument("--no-simd", action="store_true", help="scalar loops only")
    kernels.add_argument("--no-messages", action="store_true", help="errors are codes only")
    kernels.add_argument("--no-compare", action="store_true", help="do not measure the full build")
    kernels.add_argument(
        "--elsewhere",
        action="append",
        default=[],
        metavar="OP",
        help="an operator whose kernel your program links itself",
    )
    kernels.add_argument("--jobs", type=int, help="compilers at a time (default: all CPUs)")
    kernels.add_argument("--json", action="store_true", help="the figures as JSON")


def add_ops(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ops",
        action="append",
        default=[],
        metavar="SO",
        help="library of operators to load first (made by build-ops)",
    )


def load_libraries(paths: Sequence[str]) -> None:
    if paths:
        from executorch_py.runtime import load_ops

        for path in paths:
            load_ops(path)


BROKEN_PIPE = 128 + 13  # exit code of a command that SIGPIPE ended, as shells report it


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    try:
        try:
            return command(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output closed the pipe, as `| head` does: that is no error. Buffered
        # output is discarded, so that the interpreter does not flush it again at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return BROKEN_PIPE


def command(arguments: Sequence[str] | None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        if options.command == "build-ops":
            from executorch_py.cli.build_ops import build_ops

            return build_ops(options)
        if options.command == "build-kernels":
            from executorch_py.cli.build_kernels import build_kernels

            return build_kernels(options)
        if options.command == "export":
            from executorch_py.cli.export_command import export

            return export(options)
        if options.command == "llm":
            from executorch_py.cli.llm_command import llm

            return llm(options)
        if options.command == "completion":
            from executorch_py.cli.completion import completion

            print(completion(build_parser(), options.shell))
            return 0
        load_libraries(options.ops)
        if options.command == "run":
            from executorch_py.cli.run import run

            return run(options)
        if options.command == "inspect":
            from executorch_py.cli.inspect import inspect

            return inspect(options)
        if options.command == "pack":
            from executorch_py.cli.pack import pack

            return pack(options)
        from executorch_py.cli.doctor import doctor

        return doctor(options)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
        print(f"executorch_py {options.command}: {message_text(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
