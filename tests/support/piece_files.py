"""Files of tokenizers whose tokens are pieces with scores: of SentencePiece, GGUF and llama2.c."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.llm_charsmap import make_charsmap

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE, WORD, CHAR = range(1, 5)
MODELS = {"unigram": UNIGRAM, "bpe": BPE, "word": WORD, "char": CHAR}

_SAMPLE = (
    "the cat sat on the mat, that hat is a mathematical theme of the café: aaaa caaat 12 21 fi"
)
TEXTS = (
    "the cat",
    "  that  hat\n<sep>the   mat ",
    "mathematical themes, 12121",
    "aaaaaaa caaaaat",
    "café ﬁ ab\xa0x … 漢字🙂 zz",
    "▁the▁▁ <s>cat</s> <unk><0x41>",
    "<sep><sep> hathat x",
    "   ",
)


@dataclass(frozen=True)
class PieceFile:
    """A model of SentencePiece. A piece is its text, score and type."""

    pieces: tuple[tuple[str, float, int], ...]
    model_type: int = BPE
    byte_fallback: bool = False
    suffix: bool = False
    dummy_prefix: bool = True
    trim: bool = True
    escape: bool = True
    charsmap: bytes = b""

    def sentencepiece(self) -> bytes:
        trainer = _number(3, self.model_type) + _number(24, self.suffix)
        trainer += _number(35, self.byte_fallback)
        normalizer = _bytes(2, self.charsmap) if self.charsmap else b""
        normalizer += _number(3, self.dummy_prefix) + _number(4, self.trim)
        normalizer += _number(5, self.escape)
        pieces = b"".join(
            _bytes(
                1, _bytes(1, text.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind)
            )
            for text, score, kind in self.pieces
        )
        return pieces + _bytes(2, trainer) + _bytes(3, normalizer)

    def gguf(self, path: Path) -> bytes:
        texts, scores, kinds = zip(*self.pieces, strict=True)
        model = "t5" if self.model_type == UNIGRAM else "llama"
        values = {"add_space_prefix": self.dummy_prefix, "remove_extra_whitespaces": self.trim}
        return gguf_bytes(
            path, model, texts, kinds, scores=scores, charsmap=self.charsmap, **values
        )

    def llama2c(self) -> bytes:
        texts = [text.replace("▁", " ").encode() for text, _, _ in self.pieces]
        tokens = b"".join(
            struct.pack("<fi", score, len(text)) + text
            for text, (_, score, _) in zip(texts, self.pieces, strict=True)
        )
        return struct.pack("<i", max(map(len, texts))) + tokens


def gguf_bytes(
    path: Path,
    model: str,
    tokens: Sequence[str],
    kinds: Sequence[int],
    *,
    pre: str | None = None,
    scores: Sequence[float] | None = None,
    merges: Sequence[str] | None = None,
    charsmap: bytes = b"",
    **values: bool | int,
) -> bytes:
    """A GGUF file of a tokenizer only."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(list(tokens))
    writer.add_token_types(list(kinds))
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    if scores is not None:
        writer.add_token_scores(list(scores))
    if merges is not None:
        writer.add_token_merges(merges)
    if charsmap:
        writer.add_precompiled_charsmap(charsmap)
    for key, value in values.items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path.read_bytes()


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _pieces(model_type: int, byte_fallback: bool) -> tuple[tuple[str, float, int], ...]:
    words = ["▁" + word for word in _SAMPLE.split(" ")]
    if model_type == WORD:
        parts = Counter(words)
    else:
        longest = 1 if model_type == CHAR else 5
        parts = Counter(
            word[i : i + n]
            for word in words
            for n in range(1, longest + 1)
            for i in range(len(word) - n + 1)
        )
    user_defined = ["<sep>", "hat", "  ", "▁x"]
    for text in user_defined:
        parts.pop(text, None)
    made = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    if byte_fallback:
        made += [(f"<0x{i:02X}>", 0.0, BYTE) for i in range(256)]
    made += [(text, 0.0, USER_DEFINED) for text in user_defined]
    ranked = sorted(parts, key=lambda part: (-parts[part], -len(part), part))
    # Some scores are equal: of these, the leftmost pair is joined first.
    made += [(part, -1.0 - i // 3 / 8, NORMAL) for i, part in enumerate(ranked)]
    return tuple(made)


_MAP = {"é": "e", "ﬁ": "fi", "\xa0": " ", "ab": "c", "a": "a", "…": ". . .", "\n": ""}


def variants() -> dict[str, PieceFile]:
    """Models of each type with each option of the normalizer, by name."""
    made = {}
    for name, model_type in MODELS.items():
        pieces = _pieces(model_type, byte_fallback=False)
        made[name] = PieceFile(pieces, model_type)
        made[f"{name}, spaces kept"] = PieceFile(pieces, model_type, trim=False)
        made[f"{name}, no prefix"] = PieceFile(pieces, model_type, dummy_prefix=False, trim=False)
        made[f"{name}, suffix"] = PieceFile(pieces, model_type, suffix=True)
        made[f"{name}, map"] = PieceFile(pieces, model_type, charsmap=make_charsmap(_MAP))
        made[f"{name}, not escaped"] = PieceFile(pieces, model_type, escape=False)
        made[f"{name}, bytes"] = PieceFile(
            _pieces(model_type, byte_fallback=True), model_type, byte_fallback=True
        )
    return made
