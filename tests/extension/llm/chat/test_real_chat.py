"""The chat template of SmolLM2's GGUF file: the ids of transformers, and its parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chat_templates import ASKED, SYSTEM, TALKED
from support.real_models import Unavailable, gguf_file

from executorch_py.extension.llm.chat import ChatTemplate, prompt_tokens
from executorch_py.extension.llm.chat.end_of_turn import end_of_turn
from executorch_py.extension.llm.chat.prove import parts_of
from executorch_py.extension.llm.checkpoint.gguf import open_gguf
from executorch_py.extension.llm.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def path() -> Path:
    try:
        return gguf_file("SmolLM2-135M-Instruct-Q4_1")
    except Unavailable as error:
        pytest.skip(str(error))


def test_prompts_have_the_ids_of_transformers(path: Path) -> None:
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    template = ChatTemplate.from_gguf(open_gguf(path).metadata)
    tokenizer = Tokenizer.from_file(path)
    assert template is not None
    for talk in (ASKED, TALKED, [SYSTEM, *TALKED]):
        expected = reference.apply_chat_template(
            talk, add_generation_prompt=True, return_dict=False
        )
        assert prompt_tokens(template, tokenizer, talk) == list(expected)
        assert parts_of(template).render(talk) == template.render(talk)
    end = end_of_turn(template, tokenizer)
    assert end is not None and tokenizer.token(end) == b"<|im_end|>"
