"""Tokenizers: text to the ids of tokens and back. Needs neither torch nor transformers."""

from executorch_py.extension.llm.tokenizer.named_tokenizers import (
    HuggingFaceTokenizer,
    Llama2cTokenizer,
    TiktokenTokenizer,
    get_tokenizer,
)
from executorch_py.extension.llm.tokenizer.tokenizer import (
    TOKENIZER_KEY,
    TextPieces,
    Tokenizer,
    find_tokenizer,
)

__all__ = [
    "TOKENIZER_KEY",
    "HuggingFaceTokenizer",
    "Llama2cTokenizer",
    "TextPieces",
    "TiktokenTokenizer",
    "Tokenizer",
    "find_tokenizer",
    "get_tokenizer",
]
