"""`executorch_py llm`: its errors as messages. The work is in executorch_py/extension/llm."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from executorch_py.cli.export_command import with_messages
from executorch_py.cli.llm_chat import chat, speeds
from executorch_py.cli.run import check_output
from executorch_py.cli.serve_command import serve
from executorch_py.terminal_text import message_text, quoted

_LEAST_TOKENS = 4  # that the traced range of lengths needs
_MEGABYTE = 10**6
_WINDOW = 512  # tokens that perplexity reads from an empty context


def llm(options: argparse.Namespace) -> int:
    """Run an action; any failure is a message, and with --verbose of export a traceback as well."""
    actions = {"bench": bench, "chat": chat, "export": export, "perplexity": print_perplexity}
    actions |= {"run": run_text, "serve": serve, "tokenize": tokenize}
    return actions[options.action](options)


def bench(options: argparse.Namespace) -> int:
    """Print how fast a program opens, reads a prompt and adds tokens; with peers, beside them."""
    if options.against:
        return _bench_beside(options)
    if options.python:
        raise ValueError("--python: expected --against with it, got none")
    from executorch_py.extension.llm.session.speed import measure

    found = measure(
        options.file,
        prompt=options.prompt,
        steps=options.steps,
        rounds=options.rounds,
        n_threads=options.threads,
    )
    ready = found.open_seconds + found.first_seconds
    print(f"open     {found.open_seconds * 1e3:.1f} ms, to the first token {ready * 1e3:.1f} ms")
    print(f"prefill  {found.prefill_tokens_per_s:.1f} tokens/s, {options.prompt} at once")
    print(f"decode   {found.decode_tokens_per_s:.1f} tokens/s behind {options.prompt}")
    file_mb = os.path.getsize(options.file) / _MEGABYTE
    print(f"memory   {found.most_bytes / _MEGABYTE:.1f} MB, of which the file has {file_mb:.1f} MB")
    return 0


def _bench_beside(options: argparse.Namespace) -> int:
    from executorch_py.extension.llm.session.speed_beside import compare

    # A comma is part of a path, unless another peer follows it.
    peers = [part for text in options.against for part in re.split(r",(?=[\w.]+=)", text)]
    found = compare(
        options.file,
        _named("--against", peers, "PEER=FILE"),
        pythons=_named("--python", options.python, "PEER=PYTHON"),
        prompt=options.prompt,
        steps=options.steps,
        rounds=options.rounds,
        n_threads=options.threads,
    )
    print("\n".join(line.rstrip() for line in found.lines()))
    return 0


def _named(option: str, pairs: Sequence[str], form: str) -> dict[str, str]:
    from executorch_py.extension.llm.session.speed_beside import PACKAGES

    found = dict(pair.partition("=")[::2] for pair in pairs)
    for name, value in found.items():
        if name not in PACKAGES or not value:
            raise ValueError(
                f"{option}: expected {form} with a peer of {', '.join(PACKAGES)}, "
                f"got {quoted(f'{name}={value}' if value else name)}"
            )
    return found


def run_text(options: argparse.Namespace) -> int:
    """Print the text that a program generates after a prompt, piece by piece."""
    from executorch_py.extension.llm.runner import TextRunner
    from executorch_py.extension.llm.sampler import SamplingOptions
    from executorch_py.extension.llm.session import Session

    sampling = SamplingOptions(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        seed=options.seed,
    )
    runner = TextRunner(options.file, options.tokenizer, eos_ids=options.eos)
    draft = {"auto": "auto", "lookup": "lookup", "none": None}
    stream = runner.stream(
        _text(options.prompt),
        max_new_tokens=options.tokens,
        sampling=sampling,
        stop=options.stop,
        ignore_eos=options.ignore_eos,
        draft=draft[options.draft] if options.draft in draft else Session(options.draft),
    )
    for piece in stream:
        print(message_text(piece), end="", flush=True)
    print()
    if options.stats:
        print(speeds(stream), file=sys.stderr)
    return 0


def print_perplexity(options: argparse.Namespace) -> int:
    """Print how well a program predicts a text, and how fast it read it."""
    from executorch_py.extension.llm.runner import TextRunner
    from executorch_py.extension.llm.session import perplexity

    runner = TextRunner(options.file, options.tokenizer, eos_ids=())
    session, tokenizer = runner.session, runner.tokenizer
    window = min(_WINDOW, session.capacity) if options.context is None else options.context
    ids = tokenizer.encode(_text_of(options.text), add_special_tokens=False)
    # A tokenizer that begins each text with a token does so with each window.
    around, inside = tokenizer.encode("a"), tokenizer.encode("a", add_special_tokens=False)
    first = around[0] if around[:1] != inside[:1] else None
    begin = time.perf_counter()
    found = perplexity(session, ids, window=window, first=first)
    seconds = time.perf_counter() - begin
    n_read = len(ids) // window * window
    print(f"perplexity  {found.value:.4f} ± {found.error:.4f}")
    print(f"tokens      {len(ids):,}, of which {found.n_tokens:,} predicted, {window} at a time")
    slow = "" if session.interface.all_logits else "; export with --all-logits is faster"
    print(f"speed       {n_read / seconds:.1f} tokens/s{slow}")
    return 0


def _text_of(name: str) -> str:
    """The text of a file, or of standard input."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: expected a text in UTF-8, got byte {data[error.start]:#04x} at {error.start}"
        ) from None


def tokenize(options: argparse.Namespace) -> int:
    """Print the ids of a text's tokens, and their bytes."""
    from executorch_py.extension.llm.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_file(options.tokenizer)
    ids = tokenizer.encode(_text(options.text), parse_special=options.special)
    for token in ids:
        print(f"{token:8d}  {tokenizer.token(token)!r}")
    print(f"{len(ids)} tokens of {tokenizer.vocab_size}")
    return 0


def _text(argument: str) -> str:
    return sys.stdin.read() if argument == "-" else argument


def export(options: argparse.Namespace) -> int:
    """Export a language model."""
    for name, extra in (("torch", "export"), ("transformers", "demo")):
        if importlib.util.find_spec(name) is None:
            raise RuntimeError(
                f"expected {name} to be installed, got none: pip install 'executorch_py[{extra}]'"
            )
    for name, least in (
        ("context", _LEAST_TOKENS),
        ("prefill", _LEAST_TOKENS),
        ("group", 1),
    ):
        if getattr(options, name) < least:
            raise ValueError(f"--{name}: expected {least} or more, got {getattr(options, name)}")
    if 0 < options.verify < _LEAST_TOKENS or options.verify < 0:
        raise ValueError(f"--verify: expected 0, or {_LEAST_TOKENS} or more, got {options.verify}")
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
            verify=options.verify,
            report=lambda line: print(line, flush=True),
        )
    program.save(output)
    print(f"saved {output}: {os.path.getsize(output) / _MEGABYTE:.1f} MB")
    return 0
