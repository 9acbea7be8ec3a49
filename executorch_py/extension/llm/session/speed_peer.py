"""A runtime beside ours as a process that times rounds: llama.cpp, or upstream's ExecuTorch.

Run as a script with the peer's name, by the Python that has its package, with the standard library
alone. It answers JSON lines on standard output, first {"ready": true}, or {"missing": package}.
Requests are {"path", "ids", "prompt", "threads"}: open the file, read the first `prompt` ids, read
them again from an empty context, then the others one by one. Answers are seconds, as of `Round` of
speed.py: {"first", "prefill", "decode"}, or {"error": message}.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import os
import sys
import time
from typing import Any


class LlamaCpp:
    """A GGUF file in llama.cpp, by the C functions of llama-cpp-python."""

    package = "llama_cpp"
    _MOST = 512  # tokens of a call

    def __init__(self) -> None:
        self._api: Any = importlib.import_module("llama_cpp.llama_cpp")
        self._api.llama_backend_init()
        self._model: Any = None
        self._context: Any = None
        self._vocabulary = 0

    def open(self, path: str, n_tokens: int, threads: int) -> None:
        """Opens a file with room for tokens."""
        api = self._api
        self._model = api.llama_model_load_from_file(
            path.encode(), api.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError(f"expected a GGUF file that llama.cpp loads, got {path}")
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = n_tokens, self._MOST, self._MOST
        options.n_threads = options.n_threads_batch = threads
        self._context = api.llama_init_from_model(self._model, options)
        if not self._context:
            raise RuntimeError(f"expected room for a context of {n_tokens} tokens, got none")
        self._vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))

    def close(self) -> None:
        """Frees the file that is open."""
        if self._context:
            self._api.llama_free(self._context)
        if self._model:
            self._api.llama_model_free(self._model)
        self._model = self._context = None

    def read(self, ids: list[int], at: int) -> None:
        """Reads tokens at a position, in place of those that were there."""
        api = self._api
        api.llama_memory_seq_rm(api.llama_get_memory(self._context), 0, at, -1)
        known = [token % self._vocabulary for token in ids]
        for begin in range(0, len(known), self._MOST):
            part = known[begin : begin + self._MOST]
            array = (ctypes.c_int32 * len(part))(*part)
            status = api.llama_decode(self._context, api.llama_batch_get_one(array, len(part)))
            if status != 0:
                raise RuntimeError(f"llama_decode: expected status 0, got {status}")
        api.llama_get_logits_ith(self._context, -1)[0]  # waits for the result


class Upstream:
    """A .pte file in upstream's runtime, by its Python package."""

    package = "executorch"

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")
        importlib.import_module("executorch.extension.llm.custom_ops.custom_ops")
        importlib.import_module("executorch.kernels.quantized")
        self._api: Any = importlib.import_module("executorch.extension.pybindings.portable_lib")

    def open(self, path: str, n_tokens: int, threads: int) -> None:
        """Opens a file; its context has the length of its export."""
        self._api._unsafe_reset_threadpool(threads)
        self._module = self._api._load_for_executorch(path)
        names = self._module.method_names()
        meta = self._module.method_meta("forward")
        self._longest = meta.input_tensor_meta(0).sizes()[1]
        self._each = meta.input_tensor_meta(1).sizes()[0] > 1  # a position for each token
        self._vocabulary = self._number("get_vocab_size", names)
        context = self._number("get_max_context_len", names)
        if context is not None and context < n_tokens:
            raise RuntimeError(f"expected a context of {n_tokens} tokens, got {context}")

    def _number(self, method: str, names: list[str]) -> int | None:
        return int(self._module.run_method(method)[0]) if method in names else None

    def close(self) -> None:
        """Frees the file that is open."""
        self._module = None

    def read(self, ids: list[int], at: int) -> None:
        """Reads tokens at a position, in place of those that were there."""
        known = [token % self._vocabulary if self._vocabulary else token for token in ids]
        for begin in range(0, len(known), self._longest):
            part = known[begin : begin + self._longest]
            first = at + begin
            positions = list(range(first, first + len(part))) if self._each else [first]
            self._module.forward([self._torch.tensor([part]), self._torch.tensor(positions)])


PEERS: dict[str, type[LlamaCpp] | type[Upstream]] = {"llama.cpp": LlamaCpp, "upstream": Upstream}


def timed_round(
    peer: LlamaCpp | Upstream, path: str, ids: list[int], prompt: int, threads: int
) -> dict[str, float]:
    """The seconds of a round."""
    peer.close()
    times = [time.perf_counter()]
    peer.open(path, len(ids), threads)
    peer.read(ids[:prompt], 0)
    times.append(time.perf_counter())
    peer.read(ids[:prompt], 0)
    times.append(time.perf_counter())
    for position in range(prompt, len(ids)):
        peer.read(ids[position : position + 1], position)
    times.append(time.perf_counter())
    first, prefill, decode = (end - begin for begin, end in itertools.pairwise(times))
    return {"first": first, "prefill": prefill, "decode": decode}


def main(name: str) -> None:
    """Answers requests until standard input ends."""
    # Runtimes print to standard output, which is for answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=out, flush=True)

    kind = PEERS[name]
    try:
        peer = kind()
    except ModuleNotFoundError as error:
        answer({"missing": (error.name or kind.package).partition(".")[0]})
        return
    answer({"ready": True})
    for line in sys.stdin:
        try:
            answer(timed_round(peer, **json.loads(line)))
        except Exception as error:
            answer({"error": str(error)})


if __name__ == "__main__":
    del sys.path[0]  # this file's folder, whose modules are no packages of the peer
    main(sys.argv[1])
