"""Special tokens of a tokenizer: those whose names are no text. Knows no template."""

from __future__ import annotations

from collections.abc import Sequence

from executorch_py.extension.llm.tokenizer import Tokenizer


def is_special(tokenizer: Tokenizer, token: int) -> bool:
    """Whether a token is left out of decoded text, as the beginning of a text or a turn is."""
    return (
        tokenizer.decode([token], skip_special_tokens=True) == ""
        and tokenizer.decode([token], skip_special_tokens=False) != ""
    )


def special_among(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The special tokens among ids, in their order."""
    kinds = {token: is_special(tokenizer, token) for token in set(ids)}
    return [token for token in ids if kinds[token]]
