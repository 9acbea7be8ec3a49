"""Chat templates in the styles of model families, written for these tests, and conversations."""

from __future__ import annotations

from typing import Any

BOS, EOS = "<s>", "</s>"

CHATML = """\
{%- for message in messages -%}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
# A default system message, if there is none.
SMOLLM = """\
{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|im_start|>system\\nYou answer briefly.<|im_end|>\\n' }}{% endif %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>' ~ '\\n' -}}
{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
LLAMA3 = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set system = "" %}
    {%- set turns = messages %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nKnowledge ends in 2023.\\n" }}
{%- if tools is not none and tools %}
    {{- "Answer with JSON to call one of these functions:\\n\\n" }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system ~ "<|eot_id|>" }}
{%- for message in turns %}
    {%- if message.role == 'ipython' or message.role == 'tool' %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- elif 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception("One call at a time.") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}{{- call.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
# It looks for thoughts in answers, and drops those before the last question.
QWEN3 = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(more=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.more and message.role == "user" and message.content is string
           and not (message.content.startswith('<tool_response>')) %}
        {%- set ns.more = false %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if loop.index0 > ns.last and thoughts %}
            {{- '<think>\\n' + thoughts + '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- generation %}{{- content }}
        {%- for call in message.tool_calls or [] %}
            {%- set f = call.function or call %}
            {{- '\\n<tool_call>\\n{"name": "' ~ f.name ~ '", "arguments": ' }}
            {{- f.arguments if f.arguments is string else f.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}{%- endgeneration %}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + content }}
        {{- '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate: user, assistant, user, …') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system is defined %}
            {{- '[INST] ' + system + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- '[INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token }}
    {%- endif %}
{%- endfor %}
"""
GEMMA = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {{ raise_exception('The system role is not supported.') }}
{%- endif -%}
{%- for message in messages -%}
    {%- if message['role'] == 'assistant' -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""
# The system message is put before the first question; contents may be lists of parts.
GEMMA3 = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set before = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set before = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set before = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (before if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{% continue %}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""
DATED = "{{ strftime_now('%d %b %Y') }}" + CHATML
# Macros, recursion, block sets, filters with options and options of tojson.
MACROS = """\
{%- macro kind(of) -%}
{%- if of is mapping %}{ {%- for k, v in of | dictsort %}{{ k }}:{{ kind(v) }},{% endfor %} }
{%- elif of is string %}{{ of | upper | replace('A', 'å') }}
{%- elif of is iterable %}[{{ of | map('string') | join(', ') }}]
{%- else %}{{ of }}{% endif -%}
{%- endmacro -%}
{%- set head %}tools: {{ tools | length if tools else 0 }}{% endset -%}
{{ head | indent(2, true) }}
{% for tool in tools or [] %}{{ kind(tool) }}
{{ tool | tojson(indent=2, sort_keys=true) }} {{ tool | tojson(separators=(',', ':')) }}
{{ tool | tojson(ensure_ascii=true) }}
{% endfor %}
{% for m in messages if m.content %}{% if loop.index > 50 %}{% break %}{% endif %}
{{ "%s-%d" | format(m.role, loop.index) }}:{{ m.content[:40].strip().split(' ') | first }} \
{{- m.get('name', '?') }} {{ m['role'].title() }} {{ loop.cycle('a', 'b') }}
{% endfor %}
{% for group in messages | groupby('role') %}{{ group.grouper }}: {{ group.list | length }}
{%- for key, items in [group] %} {{ key[0] }}{{ items | length }}{% endfor %}{% endfor %}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{- '{}/{}'.format(1, 'x') }}{{ [1, 2] + [3] }}{{ (7 // 2) ** 2 % 5 }}{{ 'ab' * 3 }}
"""

STYLES = {
    "ChatML": CHATML,
    "SmolLM2": SMOLLM,
    "Llama 3": LLAMA3,
    "Qwen 3": QWEN3,
    "Mistral": MISTRAL,
    "Gemma": GEMMA,
    "Gemma 3": GEMMA3,
    "with a date": DATED,
    "with macros": MACROS,
}


def turn(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content, **more}


SYSTEM = turn("system", "  Be kind, änd <b>brief</b> \n")
ASKED = [turn("user", "Hi there, \n\n 漢字 {{ 1 }}? ")]
TALKED = [*ASKED, turn("assistant", " Yes. "), turn("user", "\tAnd\nnow? 🙂")]
CALL = {"type": "function", "function": {"name": "rain", "arguments": {"city": "Paris é", "n": 1}}}
CALLED = [
    *ASKED,
    turn("assistant", None, tool_calls=[CALL]),
    turn("tool", "wet & cold", name="rain"),
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "rain",
            "description": "Whether it rains, in <mm> & 'inches'",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
THOUGHT = [
    *ASKED,
    turn("assistant", "<think>\nhm\n</think>\n\nSo."),
    turn("user", "Why?"),
]
PARTS = [turn("user", [{"type": "image"}, {"type": "text", "text": " Look "}])]
CONVERSATIONS = {
    "a question": ASKED,
    "a system message": [SYSTEM, *ASKED],
    "turns": TALKED,
    "turns and a system message": [SYSTEM, *TALKED],
    "a call": CALLED,
    "thoughts": THOUGHT,
    "parts": PARTS,
    "an empty question": [turn("user", "")],
    "no question": [turn("assistant", "a"), turn("assistant", "b")],
}
