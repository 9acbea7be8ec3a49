"""The language rule of comments, docstrings and messages, as far as a program can read it.

A comment's subject is a noun that a search engine finds; a sentence that begins with "What", "Who"
or "Where" has none. Messages say "expected X, got Y".
"""

from __future__ import annotations

import re

from support.prose import c_strings, paragraphs, raised
from support.tree import c_files, python_files, text

# A sentence that begins with one of these words and is no question.
NAMELESS = re.compile(r"(?:^|(?<=[.!?] )|(?<= — ))(?:What|Who|Where|Whose) [^?.]*(?:[.;:]|$)")
# Openings of a comment whose subject stands in another comment, or nowhere.
UNCLEAR = re.compile(
    r"(?:They|Those|Its|Their|Of|By|Also) "
    r"|(?:The same|Same)(?: (?:as|for|with|in|by|without|where|of|than) |[,.])"
    r"|One (?:of|is|for|more) "
    r"|Each (?:is|has|takes|reads|runs|gets) |(?:Both|Most) (?:are|have|take|read|run|get) "
    r"|It (?:is|has|was|does) "
)
# Wordings of messages that should be "expected X, got Y".
MESSAGES = (
    r", needed is\b",
    r"needs? \d+ not\b",
    r'"[^"]* (?:is|are) out of range\b',
    r'"[^"]*\bcannot share\b',
    r'"[^"]*\bexclude each other\b',
    r'"[^"]*\bneeds (?:at least|an? dimension)\b',
    r'"argument (?:%zu|\d+): expected (?:a )?\w+"',
)
# Texts that stop at "expected", since the code that follows appends the values and "got".
IN_PARTS = {("csrc/runtime/method_io.c", "input %zu: expected ")}


def test_no_sentence_begins_with_what_who_or_where() -> None:
    wrong = [
        f"{path}:{line}: {found.group(0)[:80]}"
        for path, line, words in paragraphs()
        for found in NAMELESS.finditer(words)
    ]
    assert not wrong, f"{len(wrong)} sentences name no subject:\n" + "\n".join(wrong)


def test_a_comment_opens_with_the_thing_that_it_is_about() -> None:
    wrong = [
        f"{path}:{line}: {words[:80]}" for path, line, words in paragraphs() if UNCLEAR.match(words)
    ]
    assert not wrong, f"{len(wrong)} comments name no subject:\n" + "\n".join(wrong)


def test_no_paragraph_of_a_docstring_is_cut_off_by_a_blank_line() -> None:
    wrong = [
        f"{path}:{line}: {words[-60:]}"
        for path, line, words in paragraphs()
        if path.endswith(".py") and words.endswith(";")
    ]
    assert not wrong, "\n".join(wrong)


def test_messages_say_what_was_expected() -> None:
    wrong = [
        f"{path}:{number}: write 'expected X, got Y': {line.strip()[:80]}"
        for path in [*c_files("csrc/"), *python_files("executorch_py/")]
        for number, line in enumerate(text(path).splitlines(), 1)
        for pattern in MESSAGES
        if re.search(pattern, line)
    ]
    assert not wrong, "\n".join(wrong)


def test_messages_that_say_what_was_expected_say_what_was_got() -> None:
    """A rule of texts in C and of messages that Python raises."""
    found = [(path, line, words) for path in c_files("csrc/") for line, words in c_strings(path)]
    found += [
        (path, line, words)
        for path in python_files("executorch_py/")
        for line, words in raised(path)
    ]
    wrong = {
        (path, words): f"{path}:{line}: {words[:120]!r}"
        for path, line, words in found
        if re.search(r"\bexpected\b", words) and not re.search(r"(?s)\bexpected\b.*\bgot\b", words)
    }
    assert wrong.keys() >= IN_PARTS, f"of no use: {IN_PARTS - wrong.keys()}"
    lines = [line for message, line in wrong.items() if message not in IN_PARTS]
    assert not lines, "write 'expected X, got Y':\n" + "\n".join(lines)
