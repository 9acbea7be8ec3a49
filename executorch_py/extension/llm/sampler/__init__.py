"""Samplers: the choice of the next token from logits."""

from executorch_py.extension.llm.sampler.sampler import Drawn, Sampler, SamplingOptions

__all__ = ["Drawn", "Sampler", "SamplingOptions"]
