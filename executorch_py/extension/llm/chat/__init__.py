"""Conversations: a model's chat template, and messages as the tokens of a prompt."""

from executorch_py.extension.llm.chat.messages import checked_messages
from executorch_py.extension.llm.chat.parts import PARTS_KEY, ChatParts
from executorch_py.extension.llm.chat.prompt import prompt_tokens
from executorch_py.extension.llm.chat.template import TEMPLATE_KEY, ChatTemplate

__all__ = [
    "PARTS_KEY",
    "TEMPLATE_KEY",
    "ChatParts",
    "ChatTemplate",
    "checked_messages",
    "prompt_tokens",
]
