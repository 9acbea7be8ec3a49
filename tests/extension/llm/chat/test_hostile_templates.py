"""Hostile chat templates: each ends with an error, soon and within a bound of memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from support.chat_templates import STYLES, turn

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.chat import ChatTemplate

_DOUBLE = "{% set s = 'x' * 1000000 %}"
_FORTY = "{% set a = [0] %}" + "{% set a = [a, a] %}" * 40

TOO_MUCH = {
    "a long range": "{% for i in range(10**9) %}{% endfor %}",
    "loops in loops without a text": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "a condition of a loop": (
        "{% for a in range(9999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}"
    ),
    "a text of many texts": "{{ 'x' * 10**9 }}",
    "a list of many": "{% set a = [0] * 10**9 %}",
    "a text that doubles": "{% set s = 'x' * 99 %}" + "{% set s = s + s %}" * 40,
    "a text that doubles by ~": "{% set s = 'x' * 99 %}" + "{% set s = s ~ s %}" * 40,
    "a text that doubles in a block": (
        "{% set s = 'x' * 99 %}" + "{% set s %}{{ s }}{{ s }}{% endset %}" * 40
    ),
    "texts in all": "{% set ns = namespace(n=0) %}"
    "{% for i in range(1000) %}{% set t = 'x' * 1000000 %}{% endfor %}",
    "lists that share lists, as a text": _FORTY + "{{ a }}",
    "lists that share lists, compared": _FORTY + _FORTY.replace("a", "b") + "{{ a == b }}",
    "tuples that share tuples": "{% set a = (0,) %}" + "{% set a = (a, a) %}" * 40 + "{{ {a: 1} }}",
    "namespaces that share namespaces": (
        "{% set a = namespace() %}" + "{% set a = namespace(x=a, y=a) %}" * 40 + "{{ a }}"
    ),
    "a namespace in itself": "{% set a = namespace() %}{% set a.a = a %}{{ [a] | tojson }}",
    "a power": "{{ 9 ** 99999 }}",
    "products": "{% set n = 9 ** 999 %}" + "{% set n = n * n %}" * 40 + "{{ n }}",
    "a macro in itself": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "macros in breadth": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"
    ),
    "a recursive loop": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "a recursive loop in breadth": (
        "{% for x in [1] recursive %}"
        "{% if loop.depth < 60 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}"
    ),
    "a block in itself": "{% block b %}{{ self.b() }}{% endblock %}",
    "a wide format": "{{ '%1000000000d' % 1 }}",
    "a computed format": "{{ '%*d' % (1000000000, 1) }}",
    "a wide format by filter": "{{ '%.1000000000f' | format(1) }}",
    "a wide format by method": "{{ '{:1000000000}'.format(1) }}",
    "a nested format by method": "{{ '{:{}}'.format(1, 1000000000) }}",
    "many uses of a format": _DOUBLE + "{{ '{0}{0}{0}{0}{0}{0}'.format(s) }}",
    "a centred text": "{{ 'x' | center(10**9) }}",
    "a centred text by method": "{{ 'x'.center(10**9) }}",
    "filled with zeros": "{{ 'x'.zfill(10**9) }}",
    "an indented text": "{{ ('x\n' * 99999) | indent(9999) }}",
    "an indented text by a text": "{{ ('x\n' * 99999) | indent('x' * 9999) }}",
    "tabs": "{{ ('\t' * 99999).expandtabs(9999) }}",
    "batches": "{{ [1] | batch(10**9, 'x') | list }}",
    "replacements": _DOUBLE + "{{ s.replace('x', s) }}",
    "replacements by filter": _DOUBLE + "{{ s | replace('x', s) }}",
    "joined texts": _DOUBLE + "{{ ([s] * 1000) | join(s) }}",
    "joined by a long text": _DOUBLE + "{{ range(9999) | join(s) }}",
    "joined by method": _DOUBLE + "{{ s.join(['a'] * 9999) }}",
    "indented JSON": "{{ ([1] * 100000) | tojson(indent=99999) }}",
    "mapped filters": "{{ ['x'] | map('center', 10**9) | list }}",
    "a rounded number": "{{ 1.5 | round(10**9, 'ceil') }}",
    "a date": "{{ strftime_now('%1000000000d') }}",
    "letters": _DOUBLE + "{{ s | list | length }}",
}
REFUSED = {
    "lorem ipsum": "{{ lipsum(n=10**9) }}",
    "an attribute of a class": "{{ ''.__class__.__mro__ }}",
    "an attribute by filter": "{{ '' | attr('__class__') }}",
    "an attribute by subscript": "{{ ''['__class__']['__mro__'] }}",
    "an attribute in a format": "{{ '{0.__class__.__mro__}'.format(1) }}",
    "bytes": "{{ (1).to_bytes(10**9, 'big') }}",
    "encoded text": "{{ 'x'.encode() }}",
    "a list that grows": "{{ messages.append(1) }}",
    "globals of a function": "{{ raise_exception.__globals__['os'] }}",
    "a private name in a namespace": "{% set n = namespace(__html__=1) %}",
    "a private name set later": "{% set n = namespace() %}{% set n._x = 1 %}",
    "another template": "{% extends 'a' %}",
    "brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "a long sum": "{{ 1" + "+1" * 20_000 + " }}",
    "blocks in blocks": "{% if 1 %}" * 500 + "{% endif %}" * 500,
}


def refusal(text: str) -> str:
    with pytest.raises(InvalidArgument) as found:
        ChatTemplate(text).render([turn("user", "Hi")])
    return str(found.value)


@pytest.mark.parametrize("case", TOO_MUCH)
def test_a_template_that_takes_too_much_is_stopped(case: str) -> None:
    begin = time.thread_time()
    words = refusal(TOO_MUCH[case])
    assert time.thread_time() - begin < 7
    assert "expected at most" in words or "expected less nesting" in words, words


@pytest.mark.parametrize("case", REFUSED)
def test_a_template_reaches_nothing_outside_of_the_sandbox(case: str) -> None:
    template = ChatTemplate(REFUSED[case])
    with contextlib.suppress(InvalidArgument):
        assert template.render([turn("user", "Hi")]) == ""  # an attribute that is not defined


def test_hostile_templates_take_less_memory_than_a_gigabyte() -> None:
    """In a process of its own, whose peak is that of these templates."""
    code = (
        "import resource\n"
        "from extension.llm.chat import test_hostile_templates as t\n"
        "import pytest\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for case in t.TOO_MUCH:\n"
        "    if 'loops in loops' not in case and 'condition' not in case:\n"
        "        t.refusal(t.TOO_MUCH[case])\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=paths
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1000, done.stdout


def test_long_conversations_stay_within_the_limits() -> None:
    talk: list[Any] = [turn("system", "Be kind.")]
    for _ in range(1000):
        talk += [turn("user", "word " * 200), turn("assistant", "word " * 200)]
    talk.append(turn("user", "Why?"))
    for style in ("ChatML", "Llama 3", "Qwen 3", "Mistral", "Gemma 3"):
        begin = time.thread_time()
        assert len(ChatTemplate(STYLES[style]).render(talk)) > 2_000_000
        assert time.thread_time() - begin < 2


def test_a_message_longer_than_the_limits_is_rendered() -> None:
    text = ChatTemplate(STYLES["Llama 3"]).render([turn("user", "x" * 9_000_000)])
    assert len(text) > 9_000_000
