"""Comments and docstrings of the checkout as plain sentences, for tests of their wording."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from support.tree import c_files, python_files, text


def paragraphs() -> Iterator[tuple[str, int, str]]:
    """(path, line, text) of each comment and of each paragraph of a docstring."""
    for path in c_files():
        for line, words in _c_comments(text(path)):
            yield path, line, words
    for path in python_files():
        for line, words in _python_comments(text(path)):
            yield path, line, words


def _c_comments(source: str) -> Iterator[tuple[int, str]]:
    """Blocks of // lines, and comments behind code."""
    begin, block = 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        whole = re.match(r"\s*// ?(.*)", line)
        if whole:
            begin = begin if block else number
            block.append(whole.group(1))
            continue
        if block:
            yield begin, " ".join(block)
            block = []
        behind = re.search(r"[;,{})] +// (.*)", line)
        if behind:
            yield number, behind.group(1)


def _python_comments(source: str) -> Iterator[tuple[int, str]]:
    """Blocks of # lines with one indentation, and paragraphs of docstrings."""
    begin, end, column, block = 0, 0, 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, indent = token.start
        if token.type == tokenize.COMMENT:
            if block and (line != end + 1 or indent != column):
                yield begin, " ".join(block)
                block = []
            begin, column = (begin, column) if block else (line, indent)
            end = line
            block.append(token.string.lstrip("#").strip())
        elif token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""')):
            for part in re.split(r"\n\s*\n", token.string.strip('r"')):
                yield line, " ".join(part.split())
    if block:
        yield begin, " ".join(block)
