"""Comments, docstrings and messages of the checkout as plain text, for tests of their wording."""

from __future__ import annotations

import ast
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


_C_STRING = r'"(?:[^"\\\n]|\\.)*"'
_C_TOKEN = re.compile(rf"//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)+'|{_C_STRING}", re.DOTALL)
_C_JOINED = re.compile(rf"(?:{_C_STRING}(?:\s|\bPRI\w+\b)*)+")


def c_strings(path: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each string of a C file; strings that the compiler joins are one text."""

    def without(token: re.Match[str]) -> str:
        return token[0] if token[0][0] == '"' else "\n" * token[0].count("\n")

    source = _C_TOKEN.sub(without, text(path))
    for found in _C_JOINED.finditer(source):
        words = "".join(part[1:-1] for part in re.findall(_C_STRING, found[0]))
        yield source.count("\n", 0, found.start()) + 1, words


def raised(path: str) -> Iterator[tuple[int, str]]:
    """(line, text) of what each `raise` of a Python file raises, with {} in place of values."""
    for node in ast.walk(ast.parse(text(path))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.lineno, _words(node.exc)


def _words(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "{}"
    if isinstance(node, ast.FormattedValue):
        return "{}"
    return "".join(map(_words, ast.iter_child_nodes(node)))


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
