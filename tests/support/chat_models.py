"""A small random model for conversations, as a folder and as a program."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from executorch_py.extension.llm.export import export_folder
from support.chat_templates import CHATML
from support.decoders import build
from support.trained_tokenizers import of_words

START, END = "<|im_start|>", "<|im_end|>"


@cache
def tokenizer_json() -> bytes:
    """298 ids of bytes, and the two special tokens of ChatML."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(of_words(298).decode())
    made.add_special_tokens([START, END])
    return made.to_str().encode()


def chat_folder(folder: Path, template: str = CHATML, eos: list[int] | None = None) -> Path:
    """The folder of a Llama; the ids that end a text are in its file for generation."""
    build("Llama", {"max_position_embeddings": 512}).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(tokenizer_json())
    values = {"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(values), "utf-8")
    if eos is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": eos}))
    return folder


def chat_file(folder: Path, template: str = CHATML, capacity: int = 400) -> Path:
    """The program of `chat_folder`, in this folder."""
    source = chat_folder(folder / "model", template)
    program = export_folder(source, capacity=capacity, prefill=64, group=None, all_logits=True)
    program.save(folder / "chat.pte")
    return folder / "chat.pte"
