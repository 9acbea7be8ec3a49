"""The constant texts between the turns of a conversation: a chat template without Jinja.

Most templates put each text unchanged between texts that depend on the roles alone. Six of these
make every prompt of a system message and turns of user and assistant that ends with the user's:

    before_system   system   system_to_user   user   user_to_assistant   assistant
    assistant_to_user   user   …   user_to_answer

without a system message, `before_user` stands in place of the first three. docs/language-models.md
describes the bytes. Needs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from executorch_py.errors import InvalidArgument, InvalidProgram
from executorch_py.extension.llm.chat.messages import Message

PARTS_KEY = "chat_parts"  # of the named data of a program
VERSION = 1
PART_NAMES = ["before_system", "system_to_user", "before_user"]
PART_NAMES += ["user_to_assistant", "assistant_to_user", "user_to_answer"]
_TEXTS = len(PART_NAMES)
_HEAD = struct.Struct(f"<{3 + _TEXTS + 1}I")  # version, flags, number of texts, offsets
_HAS_SYSTEM = 1
_TRIMMED = {"system": 2, "user": 4, "assistant": 8}
_ARGUMENT = "[InvalidArgument, error: 0x12]"


@dataclass(frozen=True)
class ChatParts:
    """The texts, and the roles whose messages lose the blanks around them (Python's `strip`)."""

    before_system: str
    system_to_user: str
    before_user: str
    user_to_assistant: str
    assistant_to_user: str
    user_to_answer: str
    has_system: bool
    trimmed: frozenset[str]

    def segments(self, messages: Sequence[Message]) -> list[tuple[str, bool]]:
        """The text of a prompt in pieces, each with whether it is a message's.

        InvalidArgument for a conversation that the parts do not cover.
        """
        turns = list(messages)
        roles = [message["role"] for message in turns]
        starts_with_system = roles[0] == "system"
        if starts_with_system and not self.has_system:
            raise InvalidArgument(
                f"messages[0]: expected the role 'user', as the model has no system messages, got "
                f"'system' {_ARGUMENT}"
            )
        pieces = [(self.before_system if starts_with_system else self.before_user, False)]
        first = 1 if starts_with_system else 0
        for i, message in enumerate(turns):
            wanted = "system" if i < first else ("user", "assistant")[(i - first) % 2]
            pieces.append((self._content(i, message, wanted), True))
            if i + 1 < len(turns):
                pieces.append((self._after(wanted), False))
        if roles[-1] != "user":
            raise InvalidArgument(
                f"messages[{len(turns) - 1}]: expected the role 'user' at the end, got "
                f"{roles[-1]!r} {_ARGUMENT}"
            )
        return [*pieces, (self.user_to_answer, False)]

    def _after(self, role: str) -> str:
        if role == "system":
            return self.system_to_user
        return self.user_to_assistant if role == "user" else self.assistant_to_user

    def _content(self, i: int, message: Message, role: str) -> str:
        if message["role"] != role:
            raise InvalidArgument(
                f"messages[{i}]: expected the role {role!r}, got {message['role']!r}: other "
                f"conversations need jinja2, pip install 'executorch_py[llm]' {_ARGUMENT}"
            )
        content = message.get("content")
        if isinstance(content, str) and role in self.trimmed:
            content = content.strip()
        if not isinstance(content, str) or not content:
            raise InvalidArgument(
                f"messages[{i}]['content']: expected a text that is not empty, got "
                f"{'an empty one' if content == '' else type(content).__name__} {_ARGUMENT}"
            )
        return content

    def render(self, messages: Sequence[Message]) -> str:
        """The text of a prompt that ends with the beginning of an answer."""
        return "".join(text for text, _ in self.segments(messages))

    def to_bytes(self) -> bytes:
        """Little-endian u32: version, flags, number of texts, the offset of each and of the end,
        from the first byte of all; then the texts in UTF-8."""
        texts = [
            text.encode("utf-8", "surrogatepass")
            for text in (getattr(self, name) for name in PART_NAMES)
        ]
        flags = _HAS_SYSTEM * self.has_system + sum(_TRIMMED[role] for role in self.trimmed)
        offsets = [_HEAD.size]
        for text in texts:
            offsets.append(offsets[-1] + len(text))
        return _HEAD.pack(VERSION, flags, _TEXTS, *offsets) + b"".join(texts)

    @classmethod
    def from_bytes(cls, data: bytes) -> ChatParts:
        """The parts of a program's named data; InvalidProgram if they are damaged."""
        try:
            version, flags, count, *offsets = _HEAD.unpack_from(data)
            if (version, count) != (VERSION, _TEXTS):
                raise ValueError(f"version {version} with {count} texts")
            if offsets[0] != _HEAD.size or offsets != sorted(offsets) or offsets[-1] > len(data):
                raise ValueError(f"offsets {offsets} in {len(data)} bytes")
            texts = [data[begin:end].decode("utf-8") for begin, end in pairwise(offsets)]
        except (ValueError, struct.error) as error:
            raise InvalidProgram(
                f"{PARTS_KEY}: expected version {VERSION} with {_TEXTS} texts, got {error} "
                "[InvalidProgram, error: 0x23]"
            ) from None
        trimmed = frozenset(role for role, flag in _TRIMMED.items() if flags & flag)
        named: dict[str, str] = dict(zip(PART_NAMES, texts, strict=True))
        return cls(**named, has_system=bool(flags & _HAS_SYSTEM), trimmed=trimmed)
