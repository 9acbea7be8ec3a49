"""The inputs of the endpoints: prompts, messages, texts and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from executorch_py.extension.llm.serve.json_body import Fields, kind_of, text_of, whole_of
from executorch_py.extension.llm.serve.request_error import bad_field
from executorch_py.terminal_text import quoted

MOST_PROMPTS = 128
MOST_MESSAGES = 2**16
_MOST_ID = 2**31 - 1
_GIVEN = ("add_generation_prompt", "messages", "parse_special", "template", "tokenizer", "tools")
_ROLES = {
    "system": "system",
    "developer": "system",  # the newer name, which templates do not know
    "user": "user",
    "assistant": "assistant",
}


def read_prompts(fields: Fields) -> list[str | list[int]]:
    """The prompts of a request: texts, or ids of tokens."""
    value, path = fields.get("prompt"), fields.path("prompt")
    if isinstance(value, str):
        return [text_of(value, path)]
    if not isinstance(value, list):
        raise bad_field(path, "a string, a list of strings, or ids of tokens", kind_of(value))
    if not value:
        raise bad_field(path, "one prompt or more", "an empty list")
    if not isinstance(value[0], str | list):
        return [ids_of(value, path)]
    if len(value) > MOST_PROMPTS:
        raise bad_field(path, f"at most {MOST_PROMPTS} prompts", str(len(value)))
    return [_prompt(prompt, f"{path}[{i}]") for i, prompt in enumerate(value)]


def read_prompt(fields: Fields) -> str | list[int]:
    """The only prompt of a request."""
    prompts = read_prompts(fields)
    if len(prompts) > 1:
        raise bad_field(fields.path("prompt"), "one prompt", f"{len(prompts)}")
    return prompts[0]


def _prompt(value: Any, path: str) -> str | list[int]:
    return ids_of(value, path) if isinstance(value, list) else text_of(value, path)


def ids_of(value: Any, path: str) -> list[int]:
    """Ids of tokens."""
    if not isinstance(value, list):
        raise bad_field(path, "a list of ids", kind_of(value))
    return [whole_of(token, f"{path}[{i}]", 0, _MOST_ID) for i, token in enumerate(value)]


@dataclass(frozen=True)
class Chat:
    """Messages, each with a role and a text, and variables that a template may read."""

    messages: list[dict[str, str]]
    variables: dict[str, Any]


def read_chat(fields: Fields) -> Chat:
    """The messages of a request, and its `chat_template_kwargs`."""
    inner = fields.get("chat_template_kwargs")
    path = fields.path("chat_template_kwargs")
    if inner is not None and not isinstance(inner, dict):
        raise bad_field(path, "an object", kind_of(inner))
    variables = inner or {}
    for name in variables:
        if name in _GIVEN:
            raise bad_field(path, "variables other than the server's own", quoted(name))
    return Chat(_messages(fields), variables)


def _messages(fields: Fields) -> list[dict[str, str]]:
    items = fields.items("messages", MOST_MESSAGES)
    path = fields.path("messages")
    if not items:
        raise bad_field(path, "one message or more", "none")
    return [_message(item, f"{path}[{i}]") for i, item in enumerate(items)]


def _message(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise bad_field(path, "an object", kind_of(value))
    fields = Fields(value, path)
    role = fields.needed_text("role")
    if role not in _ROLES:
        known = ", ".join(_ROLES)
        raise bad_field(fields.path("role"), f"one of {known}", quoted(role))
    message = {"role": _ROLES[role], "content": _content(fields)}
    name = fields.text("name")
    if name is not None:
        message["name"] = name
    if fields.get("tool_calls") not in (None, []):
        raise bad_field(fields.path("tool_calls"), "none: tools are not supported", "some")
    fields.finish(ignored=("annotations", "refusal", "reasoning_content"))
    return message


def _content(fields: Fields) -> str:
    """The text of a message: a string, or parts of the type text."""
    value, path = fields.get("content"), fields.path("content")
    if not isinstance(value, list):
        return text_of(value, path)
    parts = []
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise bad_field(f"{path}[{i}]", "an object", kind_of(item))
        part = Fields(item, f"{path}[{i}]")
        kind = part.needed_text("type")
        if kind != "text":
            raise bad_field(part.path("type"), "'text', the only kind supported", quoted(kind))
        parts.append(part.needed_text("text"))
        part.finish()
    return "".join(parts)
