"""One side of bench_decoders.py: a decoder that reads tokens at positions, driven over pipes.

Reads one JSON request a line and answers one JSON line. Requests:
  {"do": "open", "path": …, "threads": n, "context": c}   answers {"ms"}, without imports
  {"do": "read", "at": p, "n": k}       one call with k tokens from position p on; answers {"ms"}
  {"do": "steps", "at": p, "n": k}      k calls with a token each; answers {"ms"} of one
  {"do": "losses", "ids": […], "from": k}  -log of the probability of the ids from index k on, each
                                        given those before; llama.cpp only; answers {"losses"}
  {"do": "memory"}                      answers {"mb"}: most resident memory so far
A context is kept from call to call; a call at an earlier position replaces what was behind it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

LEAST_ID, MOST_ID = 100, 20000


def tokens(at: int, n: int) -> list[int]:
    """The ids at positions of a random text."""
    ids: list[int] = np.random.default_rng(1).integers(LEAST_ID, MOST_ID, 1 << 14).tolist()
    return ids[at : at + n]


class Ours:
    def imports(self, threads: int) -> None:
        from executorch_py.runtime import Runtime

        self.runtime = Runtime.get()

    def open(self, path: str, threads: int, context: int) -> None:
        program = self.runtime.load_program(path, n_threads=threads)
        self.method = program.load_method("forward")

    def read(self, ids: list[int], at: int) -> None:
        self.method.execute([np.array([ids]), np.array([at])])


class Upstream:
    def imports(self, threads: int) -> None:
        import torch
        from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
        from executorch.extension.pybindings import portable_lib
        from executorch.kernels import quantized  # noqa: F401

        portable_lib._unsafe_reset_threadpool(threads)
        self.load, self.tensor = portable_lib._load_for_executorch, torch.tensor

    def open(self, path: str, threads: int, context: int) -> None:
        self.module = self.load(path)

    def read(self, ids: list[int], at: int) -> None:
        self.module.forward([self.tensor([ids]), self.tensor([at])])


class LlamaCpp:
    BATCH = 512

    def imports(self, threads: int) -> None:
        from llama_cpp import llama_cpp

        self.api = llama_cpp
        llama_cpp.llama_backend_init()

    def open(self, path: str, threads: int, context: int) -> None:
        api = self.api
        self.model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = context, self.BATCH, self.BATCH
        options.n_threads = options.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, options)

    def read(self, ids: list[int], at: int) -> None:
        api = self.api
        api.llama_memory_seq_rm(api.llama_get_memory(self.context), 0, at, -1)
        array = (ctypes.c_int32 * len(ids))(*ids)
        status = api.llama_decode(self.context, api.llama_batch_get_one(array, len(ids)))
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")
        api.llama_get_logits_ith(self.context, -1)[0]  # waits for the result

    def losses(self, ids: list[int], start: int) -> list[float]:
        api = self.api
        api.llama_memory_clear(api.llama_get_memory(self.context), True)
        batch = api.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i >= start - 1
        status = api.llama_decode(self.context, batch)
        api.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")
        n_words = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        found = []
        for i in range(start, len(ids)):
            row = api.llama_get_logits_ith(self.context, i - 1)
            logits = np.ctypeslib.as_array(row, (n_words,)).astype(np.float64)
            largest = logits.max()
            found.append(float(np.log(np.exp(logits - largest).sum()) + largest - logits[ids[i]]))
        return found


SIDES = {"ours": Ours, "upstream": Upstream, "llama.cpp": LlamaCpp}


def answer(side: Any, request: dict[str, Any]) -> dict[str, Any]:
    do = request.pop("do")
    if do == "losses":
        return {"losses": side.losses(request["ids"], request["from"])}
    if do == "memory":
        lines = Path("/proc/self/status").read_text().splitlines()
        return {"mb": next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) / 1024}
    if do == "open":
        side.imports(request["threads"])
        calls = [lambda: side.open(**request)]
    else:
        at, n = request["at"], request["n"]
        ids = tokens(at, n)
        if do == "read":
            calls = [lambda: side.read(ids, at)]
        else:
            calls = [lambda i=i: side.read(ids[i : i + 1], at + i) for i in range(n)]
    start = time.perf_counter()
    for call in calls:
        call()
    return {"ms": (time.perf_counter() - start) * 1e3 / len(calls)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES)
    side = SIDES[parser.parse_args().side]()
    # Runtimes print to standard output, which is for answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            result: dict[str, Any] = answer(side, json.loads(line))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), file=out, flush=True)


if __name__ == "__main__":
    main()
