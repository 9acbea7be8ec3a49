"""Whether a chat template only puts texts between constant ones, shown by rendering marked texts.

The messages of the trial conversations are texts that note whatever a template does with them.
Putting a text out, adding to it, and taking blanks from around it are allowed; comparing, searching
or cutting it is not, for then other texts could give another result. So the texts are opaque, and
what is between them depends on the roles alone. Needs jinja2.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat.limits import TrackedText
from executorch_py.extension.llm.chat.parts import PART_NAMES, ChatParts
from executorch_py.extension.llm.chat.template import ChatTemplate

_ROUNDS = (1, 2, 3, 5)  # questions of the trial conversations
_BLANKS = "\n \t"
_FREE = """__class__ __init__ __init_subclass__ __new__ __subclasshook__ __getattribute__
__setattr__ __delattr__ __del__ __dir__ __doc__ __reduce__ __reduce_ex__ __sizeof__ __str__ __add__
strip"""


class NotProven(Exception):
    """A template whose text is more than constant parts; the text says why."""


class _Marked(TrackedText):
    """A text with one mark in it, or such a text among others, which a template may not look at."""

    notes: list[str]
    alone: bool

    def look(self, how: str) -> None:
        self.notes.append(f"{how} of a message's text")

    def _with(self, text: str, alone: bool) -> _Marked:
        made = _Marked(text)
        made.notes, made.alone = self.notes, alone
        return made

    def strip(self, characters: Any = None, /) -> _Marked:
        if not self.alone or characters is not None:
            self.look("strip")
        return self._with(str(self).strip(characters), self.alone)

    def __add__(self, other: Any) -> _Marked:
        return self._with(str(self) + str(other), False)

    def __radd__(self, other: Any) -> _Marked:
        return self._with(str(other) + str(self), False)

    def __bool__(self) -> bool:
        return True  # texts are not empty

    def __eq__(self, other: object) -> bool:
        return self._compared(other, "==") and str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not (self._compared(other, "!=") and str.__eq__(self, str(other)))

    def __hash__(self) -> int:
        self.look("hash")
        return str.__hash__(self)

    def _compared(self, other: object, how: str) -> bool:
        """Whether the result depends on the text: a text is equal to texts only."""
        if isinstance(other, str):
            self.look(how)
        return isinstance(other, str)


def _noting(name: str) -> Callable[..., Any]:
    def method(self: _Marked, *values: Any, **named: Any) -> Any:
        self.look(name.strip("_"))
        return getattr(str, name)(str(self), *values, **named)

    return method


for _name in set(dir(str)) - set(_FREE.split()) - set(vars(_Marked)):
    if callable(getattr(str, _name)):
        setattr(_Marked, _name, _noting(_name))


def parts_of(template: ChatTemplate) -> ChatParts:
    """The parts that make the same text as a template for conversations without tools.

    NotProven if it has none: because it reads the texts or the date, or refuses turns.
    """
    has_system = _accepts_system(template)
    texts: dict[str, set[str]] = {name: set() for name in PART_NAMES}
    trimmed: dict[str, set[bool]] = {"system": set(), "user": set(), "assistant": set()}
    for n in _ROUNDS:
        for system in (False, True) if has_system else (False,):
            _try(template, n, system, texts, trimmed)
    for name, found in texts.items():
        if len(found) > 1:
            raise NotProven(f"the text {name} is not the same in each turn")
    for role, ways in trimmed.items():
        if len(ways) > 1:
            raise NotProven(f"it takes blanks from around some texts of the role {role}")
    return ChatParts(
        **{name: found.pop() if found else "" for name, found in texts.items()},
        has_system=has_system,
        trimmed=frozenset(role for role, ways in trimmed.items() if True in ways),
    )


def _accepts_system(template: ChatTemplate) -> bool:
    try:
        template.render([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])
    except InvalidArgument:
        return False
    return True


def _try(
    template: ChatTemplate,
    rounds: int,
    system: bool,
    texts: dict[str, set[str]],
    trimmed: dict[str, set[bool]],
) -> None:
    """Adds the texts around the messages of a conversation, and how each message was trimmed."""
    roles = ["system"] * system + (["user", "assistant"] * rounds)[:-1]
    cores = [secrets.token_hex(12) for _ in roles]
    whole = _rendered(template, roles, cores)
    around = f"({_BLANKS})?"
    pattern = "(.*?)".join(f"{around}{core}{around}" for core in cores)
    match = re.fullmatch(f"(.*?){pattern}(.*)", whole, re.DOTALL)
    if match is None or any(whole.count(core) != 1 for core in cores):
        raise NotProven("it does not put out each message once, in their order")
    groups = match.groups()
    for i, role in enumerate(roles):
        left, right = groups[3 * i + 1], groups[3 * i + 2]
        if left != right:
            raise NotProven("it takes blanks from one side of a message")
        trimmed[role].add(left is None)
    names = ["before_system", "system_to_user"] if system else ["before_user"]
    names += ["user_to_assistant", "assistant_to_user"] * (rounds - 1)
    for name, text in zip([*names, "user_to_answer"], groups[::3], strict=True):
        texts[name].add(text)


def _rendered(template: ChatTemplate, roles: list[str], cores: list[str]) -> str:
    """The text of marked messages; NotProven if the template reads them."""
    notes: list[str] = []

    def date(pattern: str) -> str:
        notes.append("the date")
        return ""

    messages = []
    for role, core in zip(roles, cores, strict=True):
        text = _Marked(_BLANKS + core + _BLANKS)
        text.notes, text.alone = notes, True
        messages.append({"role": role, "content": text})
    try:
        whole = template.render(messages, strftime_now=date)
    except InvalidArgument as error:
        if not notes:
            raise NotProven(str(error).rpartition(" [")[0]) from None
        whole = ""
    if notes:
        raise NotProven(f"it depends on more than roles: {notes[0]}")
    return whole
