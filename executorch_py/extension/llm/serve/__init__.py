"""A local HTTP server of a language model, for clients of OpenAI's API and of llama-server."""

from executorch_py.extension.llm.serve.handler import Limits
from executorch_py.extension.llm.serve.server import LlmServer, open_runners

__all__ = ["Limits", "LlmServer", "open_runners"]
