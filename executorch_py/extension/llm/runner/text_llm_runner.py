"""Upstream's runner for text, by its names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.runner.stats import Stats, now_ms
from executorch_py.extension.llm.runner.text_runner import TextRunner, TextStream
from executorch_py.extension.llm.sampler import SamplingOptions
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import Tokenizer
from executorch_py.runtime import Runtime

_ARGUMENT = "[InvalidArgument, error: 0x12]"


@dataclass
class GenerationConfig:
    """Upstream's options of a generation; seed, top-p and what follows are this package's."""

    echo: bool = True
    max_new_tokens: int = -1
    warming: bool = False
    seq_len: int = -1
    temperature: float = 0.8
    num_bos: int = 0
    num_eos: int = 0
    seed: int = 0
    top_p: float = 0.9
    ignore_eos: bool = False
    stop: Sequence[str] = ()
    sampling: SamplingOptions | None = None
    """All options of sampling, in place of temperature, top-p and seed."""

    def resolve_max_new_tokens(self, max_context_len: int, num_prompt_tokens: int) -> int:
        """Tokens that may be generated: the least of the limits that are set, 0 or more."""
        limit = max_context_len if self.seq_len < 0 else min(self.seq_len, max_context_len)
        left = limit - num_prompt_tokens
        return max(0, left if self.max_new_tokens < 0 else min(left, self.max_new_tokens))


class TextLLMRunner:
    """Upstream's TextLLMRunner: text goes to callbacks, and nowhere else.

    A text ends before its end-of-sequence token, which no callback gets.
    """

    def __init__(
        self,
        model_path: str | PathLike[str],
        tokenizer_path: str | PathLike[str],
        data_path: str | PathLike[str] | None = None,
    ) -> None:
        began = now_ms()
        program = Runtime.get().load_program(model_path, data_path=data_path)
        session = Session(program)
        self._runner = TextRunner(
            session, Tokenizer.from_file(tokenizer_path), eos_ids=sorted(session.interface.eos_ids)
        )
        self._loaded = (began, now_ms())
        self._running: TextStream | None = None
        self._context: list[int] = []  # all tokens so far; the session may not have read the last

    def generate(
        self,
        prompt: str,
        config: GenerationConfig | None = None,
        token_callback: Callable[[str], object] | None = None,
        stats_callback: Callable[[Stats], object] | None = None,
    ) -> None:
        """Generates text after a prompt, which follows what was read before.

        Each piece goes to `token_callback`, with `echo` the prompt as well; whole letters only.
        """
        config = config or GenerationConfig()
        session = self._runner.session
        ids = self._context + self._encoded(prompt, config)
        limit = config.resolve_max_new_tokens(session.capacity, len(ids))
        if limit == 0:
            raise InvalidArgument(
                f"prompt: expected room for a token behind {len(ids)} tokens, got a limit of "
                f"{session.capacity} positions, seq_len {config.seq_len} and max_new_tokens "
                f"{config.max_new_tokens} {_ARGUMENT}"
            )
        sampling = config.sampling or SamplingOptions(
            temperature=config.temperature, top_p=config.top_p, seed=config.seed
        )
        stream = self._runner.stream(
            ids,
            max_new_tokens=limit,
            sampling=sampling,
            stop=config.stop,
            ignore_eos=config.ignore_eos,
        )
        self._running = stream
        stream.load_times = self._loaded
        if config.echo and token_callback is not None and not config.warming:
            token_callback(prompt)
        try:
            for piece in stream:
                if token_callback is not None and not config.warming:
                    token_callback(piece)
        finally:
            self._running = None
            self._context = ids + stream.tokens
        if stats_callback is not None and not config.warming:
            stats_callback(stream.stats)

    def prefill(self, prompt: str, config: GenerationConfig | None = None) -> None:
        """Reads a prompt behind what was read before."""
        ids = self._context + self._encoded(prompt, config or GenerationConfig())
        self._runner.read(ids)
        self._context = ids

    def _encoded(self, prompt: str, config: GenerationConfig) -> list[int]:
        facts = self._runner.session.interface
        ids = self._runner.tokenizer.encode(prompt, add_special_tokens=False, parse_special=True)
        for key, count in (("num_bos", config.num_bos), ("num_eos", config.num_eos)):
            known = facts.bos_ids if key == "num_bos" else sorted(facts.eos_ids)
            if count and not known:
                method = "get_bos_id" if key == "num_bos" else "get_eos_ids"
                raise InvalidArgument(
                    f"{key}: expected 0, as the program has no constant method {method}, got "
                    f"{count} {_ARGUMENT}"
                )
        before = list(facts.bos_ids[:1]) * config.num_bos
        return before + ids + sorted(facts.eos_ids)[:1] * config.num_eos

    def stop(self) -> None:
        """Ends a generation that another thread runs at its next token."""
        running = self._running
        if running is not None:
            running.stop()

    def reset(self) -> None:
        """Begins a new text."""
        self._runner.session.rewind(0)
        self._context = []

    def get_vocab_size(self) -> int:
        """Words of the model."""
        return self._runner.session.vocabulary
