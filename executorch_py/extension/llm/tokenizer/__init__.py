"""Tokenizers: text to the ids of tokens and back. Needs neither torch nor transformers."""

from executorch_py.extension.llm.tokenizer.tokenizer import TextPieces, Tokenizer

__all__ = ["TextPieces", "Tokenizer"]
