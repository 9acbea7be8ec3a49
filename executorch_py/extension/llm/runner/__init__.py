"""Runners: text from a prompt, with a program of this or of upstream's runtime and a tokenizer."""

from typing import Any

from executorch_py._refused_paths import refuse_name
from executorch_py.extension.llm.runner.stats import Stats
from executorch_py.extension.llm.runner.text_llm_runner import GenerationConfig, TextLLMRunner
from executorch_py.extension.llm.runner.text_runner import TextRunner, TextStream

__all__ = ["GenerationConfig", "Stats", "TextLLMRunner", "TextRunner", "TextStream"]


def __getattr__(name: str) -> Any:
    refuse_name(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
