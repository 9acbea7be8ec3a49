"""The chat template of a model: messages to the text that the model was trained to answer.

A template is a program in Jinja's language that comes with a model. It runs in a sandbox with
limits; without jinja2, a program whose template was proven simple at export has its parts, which
need nothing. Knows no tokens.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from executorch_py.errors import InvalidArgument, InvalidProgram
from executorch_py.extension.llm.chat.limits import Budget, LimitReached
from executorch_py.extension.llm.chat.messages import Message, checked_messages
from executorch_py.extension.llm.chat.parts import PARTS_KEY, ChatParts
from executorch_py.terminal_text import quoted, shortened

TEMPLATE_KEY = "chat_template"  # of the named data of a program that carries its template
_FILE, _CONFIG = "chat_template.jinja", "tokenizer_config.json"
_FOLDER = "additional_chat_templates"
_DEFAULT, _TOOLS = "default", "tool_use"
_LONGEST = 1 << 17  # characters of a template
_ARGUMENT = "[InvalidArgument, error: 0x12]"


class _HasNamedData(Protocol):
    @property
    def named_data(self) -> Mapping[str, int]: ...

    def named_bytes(self, key: str) -> memoryview | bytes: ...


class _HasProgram(Protocol):
    @property
    def program(self) -> _HasNamedData: ...


class ChatTemplate:
    """A template's text, the texts of the tokens that begin and end a text, and a second template
    for messages with tools, if the model has one.

    `parts` say the same without Jinja, for conversations without tools; None if they do not.
    InvalidArgument for a text that is longer than 131,072 characters.
    """

    def __init__(
        self,
        text: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        tool_text: str | None = None,
        parts: ChatParts | None = None,
    ) -> None:
        for one in (text, tool_text or ""):
            if len(one) > _LONGEST:
                raise InvalidArgument(
                    f"chat template: expected at most {_LONGEST:,} characters, got {len(one):,} "
                    f"{_ARGUMENT}"
                )
        self.text, self.tool_text = text, tool_text
        self.bos_token, self.eos_token = bos_token, eos_token
        self.parts = parts

    # ---- sources

    @classmethod
    def of(cls, program: _HasNamedData | _HasProgram) -> ChatTemplate:
        """The template that a program, or a session's program, carries.

        InvalidArgument if it carries none, InvalidProgram if it is damaged.
        """
        carrier: Any = program if hasattr(program, "named_bytes") else program.program
        if TEMPLATE_KEY not in carrier.named_data:
            raise InvalidArgument(
                "chat template: expected one in the program, got none: pass a template, or export "
                f"the model from a folder or GGUF file that has one {_ARGUMENT}"
            )
        parts = None
        if PARTS_KEY in carrier.named_data:
            parts = ChatParts.from_bytes(bytes(carrier.named_bytes(PARTS_KEY)))
        return cls._from_bytes(bytes(carrier.named_bytes(TEMPLATE_KEY)), parts)

    @classmethod
    def find(cls, source: str | PathLike[str]) -> ChatTemplate | None:
        """The template in a model's folder; None if there is none."""
        folder = Path(source)
        config = _json_of(folder / _CONFIG) if (folder / _CONFIG).is_file() else {}
        texts = _named_texts(config.get("chat_template"))
        if (folder / _FILE).is_file():
            texts[_DEFAULT] = _text_of(folder / _FILE)
        more = folder / _FOLDER / f"{_TOOLS}.jinja"
        if more.is_file():
            texts[_TOOLS] = _text_of(more)
        return cls.of_texts(texts, _token(config.get("bos_token")), _token(config.get("eos_token")))

    @classmethod
    def from_folder(cls, path: str | PathLike[str]) -> ChatTemplate:
        """The template of a model's folder: chat_template.jinja, else `chat_template` of
        tokenizer_config.json, which also has the tokens. InvalidArgument if there is none."""
        found = cls.find(path)
        if found is None:
            raise InvalidArgument(
                f"{path}: expected {_FILE}, or chat_template in {_CONFIG}, got neither {_ARGUMENT}"
            )
        return found

    @classmethod
    def of_texts(
        cls, texts: Mapping[str, str], bos_token: str = "", eos_token: str = ""
    ) -> ChatTemplate | None:
        """The template among several by name: `default` or the only one, and `tool_use`."""
        rest = [text for name, text in texts.items() if name != _TOOLS]
        text = texts.get(_DEFAULT, rest[0] if len(rest) == 1 else None)
        if text is None:
            return None
        return cls(text, bos_token=bos_token, eos_token=eos_token, tool_text=texts.get(_TOOLS))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> ChatTemplate | None:
        """The template in the metadata of a GGUF file; None if there is none."""
        key = "tokenizer.chat_template"
        texts = {_DEFAULT: metadata[key]} if isinstance(metadata.get(key), str) else {}
        if isinstance(metadata.get(f"{key}.{_TOOLS}"), str):
            texts[_TOOLS] = metadata[f"{key}.{_TOOLS}"]
        tokens = metadata.get("tokenizer.ggml.tokens")

        def token(name: str) -> str:
            index = metadata.get(f"tokenizer.ggml.{name}_token_id")
            known = isinstance(tokens, list) and isinstance(index, int) and index < len(tokens)
            return str(tokens[index]) if known else ""  # type: ignore[index]

        return cls.of_texts(texts, token("bos"), token("eos"))

    def to_bytes(self) -> bytes:
        """The template as named data of a program: JSON in UTF-8."""
        values = {"template": self.text, "bos_token": self.bos_token, "eos_token": self.eos_token}
        if self.tool_text is not None:
            values["tool_template"] = self.tool_text
        return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")

    @classmethod
    def _from_bytes(cls, data: bytes, parts: ChatParts | None) -> ChatTemplate:
        try:
            values = json.loads(data)
            text, bos, eos = (str(values[k]) for k in ("template", "bos_token", "eos_token"))
            tools = values.get("tool_template")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidProgram(
                f"{TEMPLATE_KEY}: expected JSON with template, bos_token and eos_token, got "
                f"{quoted(repr(error))} [InvalidProgram, error: 0x23]"
            ) from None
        tool_text = None if tools is None else str(tools)
        return cls(text, bos_token=bos, eos_token=eos, tool_text=tool_text, parts=parts)

    # ---- texts

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The text of messages, with the beginning of an answer if `add_generation_prompt`.

        `tools` are functions in the JSON form of transformers; `variables` are what else a template
        may read, such as `enable_thinking`. InvalidArgument for messages that are none or that the
        template refuses, a template that is damaged or takes more than it may (5 seconds, 500,000
        steps, 4 million characters), and without jinja2, unless the parts are enough.
        """
        checked = checked_messages(messages)
        if importlib.util.find_spec("jinja2") is None:
            if self.parts is not None and not tools and not variables and add_generation_prompt:
                return self.parts.render(checked)
            raise InvalidArgument(
                "chat template: expected jinja2 to be installed, got none: pip install "
                f"'executorch_py[llm]' {_ARGUMENT}"
            )
        return self._rendered(checked, add_generation_prompt, tools, variables)

    def _rendered(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any],
    ) -> str:
        from executorch_py.extension.llm.chat.sandbox import rendered

        given = {
            "messages": list(messages),
            "tools": None if tools is None else list(tools),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            **variables,
        }
        text = self.tool_text if tools and self.tool_text is not None else self.text
        try:
            return rendered(text, given, Budget(given))
        except LimitReached as error:
            raise InvalidArgument(
                f"chat template: expected at most {error}, got more: the template is damaged or "
                f"hostile {_ARGUMENT}"
            ) from None
        except RecursionError:
            raise InvalidArgument(
                f"chat template: expected less nesting, got more than Python allows {_ARGUMENT}"
            ) from None
        except Exception as error:
            # A template may fail with any exception of an expression.
            line = getattr(error, "lineno", None)
            place = "" if line is None else f", line {line}"
            raise InvalidArgument(
                f"chat template{place}: expected messages and a template that fit, got "
                f"{type(error).__name__}: {shortened(str(error))} {_ARGUMENT}"
            ) from None


def _text_of(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def _json_of(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"{path}: expected JSON, got {quoted(str(error))} {_ARGUMENT}"
        ) from None
    if not isinstance(values, dict):
        raise InvalidArgument(
            f"{path}: expected an object, got {type(values).__name__} {_ARGUMENT}"
        )
    return values


def _named_texts(value: Any) -> dict[str, str]:
    """The templates of a configuration: one text, or a list of {name, template}."""
    if isinstance(value, str):
        return {_DEFAULT: value}
    found = {}
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict) and isinstance(item.get("template"), str):
            found[str(item.get("name", _DEFAULT))] = item["template"]
    return found


def _token(value: Any) -> str:
    """A token's text, which a configuration has as it is or as `content` of its options."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""
