"""Named data by which a program reads and writes text: its tokenizer and its chat template."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from executorch_py.errors import ExecutorchError
from executorch_py.extension.llm.chat import PARTS_KEY, TEMPLATE_KEY, ChatTemplate
from executorch_py.extension.llm.chat.end_of_turn import end_of_turn
from executorch_py.extension.llm.checkpoint.gguf import open_gguf
from executorch_py.extension.llm.tokenizer import TOKENIZER_KEY, Tokenizer, find_tokenizer

_MEGABYTE = 10**6
_Say = Callable[[str], None]


def carried_text(source: Path, say: _Say) -> tuple[dict[str, bytes], int | None]:
    """The named data of a model's folder or GGUF file, and the id of the token that ends an answer
    in its chat template; None if there is none.

    A file that cannot be read is left out and named.
    """
    tokenizer, template = _tokenizer(source, say), _template(source, say)
    data = {} if tokenizer is None else {TOKENIZER_KEY: bytes(tokenizer.prepared)}
    if template is None:
        return data, None
    data[TEMPLATE_KEY] = template.to_bytes()
    line = f"chat template: {len(template.text):,} characters"
    if importlib.util.find_spec("jinja2") is None:
        say(f"{line}; jinja2 is not installed, so that it was not read")
        return data, None
    line += _add_parts(template, data)
    end = None if tokenizer is None else end_of_turn(template, tokenizer)
    if end is not None and tokenizer is not None:
        line += f"; an answer ends with {tokenizer.token(end).decode('utf-8', 'replace')!r}"
    say(line)
    return data, end


def _add_parts(template: ChatTemplate, data: dict[str, bytes]) -> str:
    """Adds the template's constant parts to named data; says whether it has any."""
    from executorch_py.extension.llm.chat.prove import NotProven, parts_of

    try:
        data[PARTS_KEY] = parts_of(template).to_bytes()
    except NotProven as error:
        return f", needs jinja2 ({error})"
    return ", also as constant parts"


def _tokenizer(source: Path, say: _Say) -> Tokenizer | None:
    try:
        tokenizer = find_tokenizer(source)
    except ExecutorchError as error:
        say(f"tokenizer: left out: {_short(error)}")
        return None
    if tokenizer is None:
        say("tokenizer: none beside the weights")
        return None
    size = len(tokenizer.prepared) / _MEGABYTE
    say(f"tokenizer: {tokenizer.vocab_size:,} tokens, {size:.1f} MB")
    return tokenizer


def _template(source: Path, say: _Say) -> ChatTemplate | None:
    try:
        if source.is_dir():
            return ChatTemplate.find(source)
        return ChatTemplate.from_gguf(open_gguf(source).metadata)
    except ExecutorchError as error:
        say(f"chat template: left out: {_short(error)}")
        return None


def _short(error: Exception) -> str:
    return str(error).partition(" [")[0]
