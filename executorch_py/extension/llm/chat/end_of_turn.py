"""The token with which a model ends an answer, found in its chat template."""

from __future__ import annotations

import secrets

from executorch_py.errors import ExecutorchError
from executorch_py.extension.llm.chat.special_tokens import is_special
from executorch_py.extension.llm.chat.template import ChatTemplate
from executorch_py.extension.llm.tokenizer import Tokenizer


def end_of_turn(template: ChatTemplate, tokenizer: Tokenizer) -> int | None:
    """The special token right behind an answer that another question follows; None if there is
    none, or the template refuses such a conversation."""
    mark = secrets.token_hex(12)
    talk = [
        {"role": role, "content": content}
        for role, content in (("user", "a"), ("assistant", mark), ("user", "b"))
    ]
    try:
        behind = template.render(talk).rpartition(mark)[2]
        ids = tokenizer.encode(behind, add_special_tokens=False, parse_special=True)
        first = ids[0] if ids else None
        return first if first is not None and is_special(tokenizer, first) else None
    except ExecutorchError:
        return None
