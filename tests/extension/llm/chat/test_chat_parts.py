"""The constant parts of chat templates: equal texts, templates that have none, damaged bytes."""

from __future__ import annotations

import importlib.util
import struct
from typing import Any

import pytest
from support.chat_templates import (
    ASKED,
    BOS,
    CHATML,
    EOS,
    GEMMA,
    STYLES,
    SYSTEM,
    TALKED,
    turn,
)

from executorch_py.errors import InvalidArgument, InvalidProgram
from executorch_py.extension.llm.chat import ChatParts, ChatTemplate
from executorch_py.extension.llm.chat.prove import NotProven, parts_of

PROVEN = ("ChatML", "SmolLM2", "Llama 3", "Mistral", "Gemma", "Gemma 3")


def made(style: str) -> ChatTemplate:
    return ChatTemplate(STYLES[style], bos_token=BOS, eos_token=EOS)


@pytest.mark.parametrize("style", PROVEN)
def test_parts_make_the_text_of_the_template(style: str) -> None:
    template = made(style)
    parts = ChatParts.from_bytes(parts_of(template).to_bytes())
    assert parts == parts_of(template)
    long = [*TALKED, turn("assistant", "</think> <|im_end|>"), *TALKED]
    for talk in (ASKED, TALKED, long):
        assert parts.render(talk) == template.render(talk)
        if parts.has_system:
            assert parts.render([SYSTEM, *talk]) == template.render([SYSTEM, *talk])


def test_parts_know_which_texts_are_trimmed() -> None:
    assert parts_of(made("ChatML")).trimmed == set()
    assert parts_of(made("Llama 3")).trimmed == {"system", "user", "assistant"}
    assert parts_of(made("Gemma 3")).trimmed == {"user", "assistant"}
    assert not parts_of(made("Gemma")).has_system


def by_content(test: str) -> str:
    """ChatML that does something else, now and then, with a message."""
    return CHATML.replace("message['content']", test)


READING = {
    "a search": by_content("('no' if 'x' in message.content else message.content)"),
    "a comparison": by_content("('no' if message.content == 'x' else message.content)"),
    "a length": by_content("('no' if message.content | length > 99 else message.content)"),
    "a replacement": by_content("(message.content | replace('x', 'y'))"),
    "a replacement by method": by_content("message.content.replace('x', 'y')"),
    "blanks on the left": by_content("message.content.lstrip()"),
    "other characters": by_content("message.content.strip('x')"),
    "a first letter": by_content("message.content[0]"),
    "letters": by_content("(message.content | map('upper') | join)"),
    "JSON": by_content("(message | tojson)"),
    "a format": by_content("('%s' % message.content)"),
    "a format by method": by_content("'{}'.format(message.content)"),
    "a text of a list": by_content("([message.content] | string)"),
    "the whole turn trimmed": by_content("((' ' + message.content) | trim)"),
    "a list of texts": by_content("('x' if message.content in ['a'] else message.content)"),
    "a key": by_content("{'x': 'y'}.get(message.content, message.content)"),
    "a macro": "{% macro m(x) %}{{ x }}{% endmacro %}" + by_content("m(message.content)"),
    "a block": "{% for m in messages %}{% set x %}{{ m.content }}{% endset %}{{ x }}{% endfor %}",
    "a filter of a block": "{% for m in messages %}{% filter upper %}{{ m.content }}"
    "{% endfilter %}{% endfor %}",
    "the date": STYLES["with a date"],
    "thoughts": STYLES["Qwen 3"],
}
OTHERS = {
    "a turn's number": "{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}",
    "the last turn": "{% for m in messages %}{{ 'x' if loop.last }}{{ m.content }}{% endfor %}",
    "the last question only": "{{ messages[-1].content }}",
    "each text twice": "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
    "the other order": "{% for m in messages[::-1] %}{{ m.content }}{% endfor %}",
    "one turn": "{% if messages | length > 2 %}{{ raise_exception('') }}{% endif %}"
    "{{ messages[0].content }}",
    "some trimmed": "{% for m in messages %}"
    "{{ m.content | trim if loop.first else m.content }}{% endfor %}",
}


@pytest.mark.parametrize("case", READING)
def test_a_template_that_reads_texts_has_no_parts(case: str) -> None:
    with pytest.raises(NotProven, match="depends on more than roles"):
        parts_of(ChatTemplate(READING[case]))


@pytest.mark.parametrize("case", OTHERS)
def test_a_template_whose_turns_differ_has_no_parts(case: str) -> None:
    with pytest.raises(NotProven):
        parts_of(ChatTemplate(OTHERS[case]))


def test_without_jinja2_the_parts_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    template = made("Llama 3")
    expected = template.render([SYSTEM, *TALKED])
    template.parts = parts_of(template)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert template.render([SYSTEM, *TALKED]) == expected
    with pytest.raises(InvalidArgument, match=r"executorch_py\[llm\]"):
        template.render(TALKED, tools=[{}])


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        ([SYSTEM, *ASKED], "expected the role 'user', as the model has no system messages"),
        ([*ASKED, *ASKED], r"messages\[1\]: expected the role 'assistant', got 'user'"),
        (TALKED[:2], r"messages\[1\]: expected the role 'user' at the end, got 'assistant'"),
        ([turn("tool", "a")], r"messages\[0\]: expected the role 'user', got 'tool'"),
        ([turn("user", " \n")], "expected a text that is not empty, got an empty one"),
        ([turn("user", [{"type": "text"}])], "expected a text that is not empty, got list"),
    ],
)
def test_conversations_beyond_the_parts_are_refused(talk: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        parts_of(ChatTemplate(GEMMA)).render(talk)


def test_damaged_parts_are_refused() -> None:
    good = parts_of(made("ChatML")).to_bytes()
    assert good[:12] == struct.pack("<3I", 1, 1, 6)
    bad = [good[:n] for n in range(0, len(good), 7)]
    bad += [struct.pack("<I", 2) + good[4:], good[:12] + struct.pack("<I", 1 << 31) + good[16:]]
    bad += [good[:-1] + b"\xff"]
    for data in bad:
        with pytest.raises(InvalidProgram, match="chat_parts: expected version 1 with 6 texts"):
            ChatParts.from_bytes(data)
