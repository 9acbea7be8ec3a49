"""Chat templates: the texts of transformers, messages that are none, sources of templates."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from support.chat_templates import (
    BOS,
    CHATML,
    CONVERSATIONS,
    EOS,
    GEMMA,
    LLAMA3,
    STYLES,
    TOOLS,
    turn,
)
from transformers.utils.chat_template_utils import render_jinja_template

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat import ChatTemplate

ONE = [turn("user", "Hi")]


def of_transformers(text: str, messages: Any, tools: Any, **variables: Any) -> str:
    """The text of transformers; "refused" if the template fails."""
    try:
        found = render_jinja_template(
            conversations=[messages],
            chat_template=text,
            tools=tools,
            bos_token=BOS,
            eos_token=EOS,
            **variables,
        )
    except Exception:
        return "refused"
    return str(found[0][0])


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("talk", CONVERSATIONS)
@pytest.mark.parametrize("style", STYLES)
def test_texts_are_those_of_transformers(style: str, talk: str, tools: Any) -> None:
    template = ChatTemplate(STYLES[style], bos_token=BOS, eos_token=EOS)
    for variables in ({"add_generation_prompt": True}, {"add_generation_prompt": False}):
        expected = of_transformers(STYLES[style], CONVERSATIONS[talk], tools, **variables)
        try:
            found = template.render(CONVERSATIONS[talk], tools=tools, **variables)
        except InvalidArgument as error:
            assert "chat template" in str(error), error
            found = "refused"
        assert found == expected


def test_variables_reach_the_template() -> None:
    template = ChatTemplate(STYLES["Qwen 3"])
    assert template.render(ONE, enable_thinking=False).endswith("<think>\n\n</think>\n\n")
    assert template.render(ONE).endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ("Hi", "messages: expected a list of {role, content}, got str"),
        ({"role": "user"}, "messages: expected a list of {role, content}, got dict"),
        ([], "messages: expected 1 or more, got none"),
        ([*ONE, "Hi"], r"messages\[1\]: expected a dictionary with role and content, got str"),
        ([{"content": "Hi"}], r"messages\[0\]\['role'\]: expected a text such as 'user', got none"),
        (
            [turn("user", None)],
            r"messages\[0\]\['content'\]: expected a text or a list .* got none",
        ),
        ([turn("user", 5)], r"messages\[0\]\['content'\]: expected a text or a list .* got int"),
        ([turn("user", ["Hi"])], r"\['content'\]\[0\]: expected a dictionary with a type, got str"),
    ],
)
def test_messages_that_are_none_are_refused_with_their_place(messages: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        ChatTemplate(CHATML).render(messages)


def test_a_template_says_why_it_refuses_messages() -> None:
    with pytest.raises(
        InvalidArgument, match="got TemplateError: The system role is not supported"
    ):
        ChatTemplate(GEMMA).render([turn("system", "a"), *ONE])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for %}", "line 1: expected messages and a template that fit, got TemplateSyntaxError"),
        ("a\n{{ 1 / 0 }}", "got ZeroDivisionError"),
        ("{{ x | nothing }}", "No filter named 'nothing'"),
        ("{% include 'other' %}", "got TypeError"),
        ("{{ nobody.name }}", "got UndefinedError"),
        ("a" * 200_000, "expected at most 131,072 characters, got 200,000"),
    ],
)
def test_a_damaged_template_is_refused_with_its_error(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        ChatTemplate(text).render(ONE)


def test_without_jinja2_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match=r"pip install 'executorch_py\[llm\]'"):
        ChatTemplate(CHATML).render(ONE)


# ---- sources


def configuration(folder: Path, **values: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(values), "utf-8")


def test_a_folder_has_its_template_in_the_configuration(tmp_path: Path) -> None:
    configuration(tmp_path, chat_template=LLAMA3, bos_token={"content": "<b>"}, eos_token="<e>")
    found = ChatTemplate.from_folder(tmp_path)
    assert (found.text, found.bos_token, found.eos_token) == (LLAMA3, "<b>", "<e>")


def test_a_folder_may_have_a_template_for_tools(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    configuration(tmp_path, chat_template=named)
    found = ChatTemplate.from_folder(tmp_path)
    assert found.render(ONE) == "plain" and found.render(ONE, tools=TOOLS) == "tools"


def test_the_template_s_own_file_comes_first(tmp_path: Path) -> None:
    configuration(tmp_path, chat_template="old", eos_token=None)
    (tmp_path / "chat_template.jinja").write_text(CHATML, "utf-8")
    assert ChatTemplate.from_folder(tmp_path).text == CHATML


@pytest.mark.parametrize("content", ["{}", "[", "[1]", '{"chat_template": 5}'])
def test_a_folder_without_a_template_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(InvalidArgument, match="expected"):
        ChatTemplate.from_folder(tmp_path)


def test_metadata_of_gguf_files_have_a_template_and_its_tokens() -> None:
    metadata = {
        "tokenizer.chat_template": CHATML,
        "tokenizer.ggml.tokens": ["a", "<b>", "<e>"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 9,
    }
    found = ChatTemplate.from_gguf(metadata)
    assert found is not None
    assert (found.text, found.bos_token, found.eos_token) == (CHATML, "<b>", "")
    assert ChatTemplate.from_gguf({}) is None
