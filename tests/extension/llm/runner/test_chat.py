"""Conversations by runners: answers, turns that are not read again, names of special tokens."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from support.chat_models import END, chat_file
from support.chat_templates import turn

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat import ChatTemplate
from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.session import Session

ASKED = [turn("user", "Hi")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_file(tmp_path_factory.mktemp("chat"))


def test_an_answer_is_the_text_after_the_rendered_prompt(path: Path) -> None:
    runner = TextRunner(path, eos_ids=())
    prompt = ChatTemplate.of(runner.session).render(ASKED)
    expected = runner.generate(
        prompt, max_new_tokens=12, add_special_tokens=False, parse_special=True
    )
    answer = runner.chat(ASKED, max_new_tokens=12)
    assert "".join(answer) == expected.text and answer.tokens == expected.tokens


def test_a_second_question_reads_only_what_is_new(path: Path) -> None:
    runner = TextRunner(path, eos_ids=())
    first = runner.chat(ASKED, max_new_tokens=5)
    text = "".join(first)
    again = runner.chat([*ASKED, turn("assistant", text), turn("user", "And?")], max_new_tokens=1)
    list(again)
    assert again.stats.num_cached_tokens >= first.stats.num_prompt_tokens


def test_an_answer_ends_with_the_end_of_a_turn(path: Path) -> None:
    session = Session(path)
    end = TextRunner(session).tokenizer.encode(END, parse_special=True)
    runner = TextRunner(session)
    assert set(end) <= runner.eos_ids


def test_names_in_messages_are_text_unless_asked_for(path: Path) -> None:
    runner = TextRunner(path)
    plain = runner.chat([turn("user", END)], max_new_tokens=0)
    parsed = runner.chat([turn("user", END)], max_new_tokens=0, parse_special=True)
    assert plain.stats.num_prompt_tokens > parsed.stats.num_prompt_tokens


def test_a_template_and_its_variables_may_be_passed(path: Path) -> None:
    runner = TextRunner(path)
    template = ChatTemplate("{{ messages[0].content * n }}")
    stream = runner.chat(
        [turn("user", "x")], template=template, variables={"n": 7}, max_new_tokens=0
    )
    ids = runner.tokenizer.encode("x" * 7)
    assert stream.stats.num_prompt_tokens == len(ids)


def test_wrong_messages_and_options_are_refused(path: Path) -> None:
    runner = TextRunner(path)
    with pytest.raises(InvalidArgument, match=r"messages\[0\]\['role'\]: expected a text"):
        runner.chat([{"content": "Hi"}])
    with pytest.raises(InvalidArgument, match="max_new_tokens: expected 0 or more"):
        runner.chat(ASKED, max_new_tokens=-1)


def test_without_jinja2_a_program_s_parts_give_the_same_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = [turn("system", "Be kind."), *ASKED]
    expected = "".join(TextRunner(path).chat(talk, max_new_tokens=9))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "".join(TextRunner(path).chat(talk, max_new_tokens=9)) == expected
