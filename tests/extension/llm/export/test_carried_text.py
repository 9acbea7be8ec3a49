"""Chat templates that programs carry, their parts, and the token that ends an answer."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
from support.chat_models import END, chat_file, chat_folder, tokenizer_json
from support.chat_templates import CHATML, QWEN3, TALKED
from support.decoders import build

from executorch_py.errors import InvalidArgument, InvalidProgram
from executorch_py.extension.llm.chat import PARTS_KEY, TEMPLATE_KEY, ChatParts, ChatTemplate
from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.export.carried_text import carried_text
from executorch_py.extension.llm.session import Session
from executorch_py.extension.llm.tokenizer import Tokenizer


def test_a_program_carries_the_template_of_its_folder(tmp_path: Path) -> None:
    session = Session(chat_file(tmp_path))
    for found in (ChatTemplate.of(session), ChatTemplate.of(session.program)):
        assert (found.text, found.bos_token, found.eos_token) == (CHATML, "<s>", "</s>")
        assert found.parts is not None
        assert found.parts.render(TALKED) == found.render(TALKED)


def test_an_answer_ends_with_the_template_s_token(tmp_path: Path) -> None:
    end = Tokenizer.from_bytes(tokenizer_json()).encode(END, parse_special=True)
    found = Session(chat_file(tmp_path)).interface.eos_ids
    assert found == {2, *end}


def test_tokens_that_end_a_text_are_those_of_the_file_for_generation(tmp_path: Path) -> None:
    folder = chat_folder(tmp_path, "{{ messages[0].content }}", eos=[7, 9])
    program = export_folder(folder, capacity=16, prefill=4, group=None)
    assert Session(bytes(program.buffer)).interface.eos_ids == {7, 9}


def test_a_template_without_parts_says_why(tmp_path: Path) -> None:
    said: list[str] = []
    data, _ = carried_text(chat_folder(tmp_path, QWEN3), said.append)
    assert TEMPLATE_KEY in data and PARTS_KEY not in data
    assert "needs jinja2 (it depends on more than roles: startswith of a message's" in said[-1]


def test_a_damaged_configuration_is_left_out_and_named(tmp_path: Path) -> None:
    (chat_folder(tmp_path) / "tokenizer_config.json").write_text("{")
    said: list[str] = []
    data, end = carried_text(tmp_path, said.append)
    assert data.keys() == {"tokenizer"} and end is None
    assert said[-1].startswith("chat template: left out: ") and "expected JSON" in said[-1]


def test_a_gguf_file_has_its_template_in_its_metadata(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_chat_template(CHATML)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    said: list[str] = []
    data, _ = carried_text(tmp_path / "a.gguf", said.append)
    assert said[0].startswith("tokenizer: left out: ")
    parts = ChatParts.from_bytes(data[PARTS_KEY])
    assert parts.render(TALKED) == ChatTemplate(CHATML).render(TALKED)


def test_a_program_without_a_template_says_so(tmp_path: Path) -> None:
    build("Llama", {}).save_pretrained(tmp_path)
    program = export_folder(tmp_path, capacity=16, prefill=4, group=None)
    with pytest.raises(InvalidArgument, match="expected one in the program, got none"):
        ChatTemplate.of(Session(bytes(program.buffer)))


@pytest.mark.parametrize("data", [b"", b"[]", b'{"template": "a"}', b"\xff"])
def test_a_damaged_template_is_refused(data: bytes) -> None:
    class Carrier:
        named_data = {TEMPLATE_KEY: len(data)}  # noqa: RUF012 as programs have it

        def named_bytes(self, key: str) -> bytes:
            return data

    with pytest.raises(InvalidProgram, match="expected JSON with template, bos_token"):
        ChatTemplate.of(Carrier())
