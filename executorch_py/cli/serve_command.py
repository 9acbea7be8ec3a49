"""`executorch_py llm serve`: a server of a language model, until a signal ends it."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from executorch_py.terminal_text import name_text


def add_serve(add: Callable[..., argparse.ArgumentParser]) -> None:
    """The arguments of the command."""
    serve = add("serve", help="answer HTTP requests of OpenAI's API and of llama-server's")
    serve.add_argument("file", metavar="PTE")
    serve.add_argument(
        "--tokenizer", metavar="FILE", help="as of run (default: the program's tokenizer)"
    )
    serve.add_argument(
        "--eos", type=int, action="append", metavar="ID", help="as of run (default: the program's)"
    )
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to bind to (default: this machine alone)"
    )
    serve.add_argument(
        "--port", type=int, default=8080, metavar="N", help="default 8080; 0 takes a free one"
    )
    serve.add_argument(
        "--sessions", type=int, default=2, metavar="N", help="requests at a time (default 2)"
    )
    serve.add_argument(
        "--threads", type=int, metavar="N", help="of each session (default: all CPUs)"
    )
    serve.add_argument(
        "--waiting", type=int, default=32, metavar="N", help="requests that may wait (default 32)"
    )
    key = serve.add_mutually_exclusive_group()
    key.add_argument("--api-key", metavar="KEY", help="answer requests with this key only")
    key.add_argument("--api-key-file", metavar="FILE", help="the same, from a file's first line")
    serve.add_argument("--alias", metavar="NAME", help="the model's name (default: the file's)")


def serve(options: argparse.Namespace) -> int:
    """Answer requests until SIGINT or SIGTERM."""
    from executorch_py.extension.llm.serve import Limits, LlmServer, open_runners

    for name, least, most in (("port", 0, 65535), ("sessions", 1, 1024), ("waiting", 0, 10**6)):
        value = getattr(options, name)
        if not least <= value <= most:
            raise ValueError(f"--{name}: expected {least} to {most}, got {value}")
    model = options.alias or Path(options.file).stem
    api_key = options.api_key
    if options.api_key_file is not None:
        api_key = Path(options.api_key_file).read_text("utf-8").partition("\n")[0].strip()
    runners = open_runners(
        options.file, options.tokenizer, options.sessions, options.threads, options.eos
    )
    server = LlmServer(
        runners,
        model=model,
        host=options.host,
        port=options.port,
        api_key=api_key,
        limits=Limits(waiting=options.waiting),
    )
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with server:
        print(f"{name_text(model)} is served at {server.url}; Ctrl-C ends it", flush=True)
        if not server.is_local and api_key is None:
            print("other machines can use it without a key: see --api-key", file=sys.stderr)
        ended.wait()
    return 0
