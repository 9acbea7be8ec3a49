"""Sessions: conversations with a language model's program, whose caches they know and keep."""

from executorch_py.extension.llm.session.perplexity import Perplexity, perplexity
from executorch_py.extension.llm.session.session import Session

__all__ = ["Perplexity", "Session", "perplexity"]
