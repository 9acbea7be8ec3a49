"""Session files: refused when cut, changed or of another model, before anything changes."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.decoder_files import own_file

from executorch_py.errors import InvalidArgument, InvalidExternalData
from executorch_py.extension.llm.session import Session

IDS = [5, 17, 42, 3, 9, 11, 12, 44]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_file(tmp_path_factory.mktemp("decoders"), "Llama")


def saved(model: Path, path: Path) -> bytes:
    session = Session(model)
    session.generate(IDS, 5, stop=())
    session.save(path)
    return path.read_bytes()


def unchanged(model: Path, path: Path, error: type[Exception], words: str) -> None:
    session, other = Session(model), Session(model)
    session.prefill(IDS[:3])
    other.prefill(IDS[:3])
    with pytest.raises(error, match=words):
        session.restore(path)
    assert np.array_equal(session.step(7), other.step(7))


def test_another_session_goes_on_with_the_same_tokens(model: Path, tmp_path: Path) -> None:
    session = Session(model)
    session.generate(IDS, 5, stop=())
    session.save(tmp_path / "state")
    other = Session(model)
    other.restore(tmp_path / "state")
    assert other.tokens == session.tokens
    assert other.generate([8], 9, stop=()) == session.generate([8], 9, stop=())


def test_a_file_has_the_size_of_the_filled_part_of_the_caches(model: Path, tmp_path: Path) -> None:
    session = Session(model)
    session.save(tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_size < 500
    session.prefill(IDS)
    session.save(tmp_path / "state")
    caches = sum(values.nbytes for values in session._buffers().values())
    assert (tmp_path / "state").stat().st_size < caches


def test_a_file_of_a_model_with_other_weights_is_refused(model: Path, tmp_path: Path) -> None:
    saved(own_file(tmp_path, "Llama", seed=1), tmp_path / "state")
    unchanged(model, tmp_path / "state", InvalidArgument, "expected a session of this program")


def test_every_cut_and_change_of_a_file_is_refused(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "state"
    content = saved(model, path)
    session = Session(model)
    session.prefill(IDS)
    step = len(content) // 50
    for at in [*range(0, len(content), step), 1, 7, 8, 47, len(content) - 1]:
        for wrong in (content[:at], content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]):
            path.write_bytes(wrong)
            with pytest.raises(InvalidExternalData, match="expected a whole session file, got"):
                session.restore(path)
    assert session.tokens == IDS


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "an id beyond the vocabulary": lambda h: h["tokens"].__setitem__(0, 300),
    "more tokens than the context has": lambda h: h["tokens"].extend([3] * 100),
    "tokens that were not read": lambda h: h.__setitem__("read", 3),
    "other buffers": lambda h: h["buffers"][0].__setitem__(0, "other"),
    "more blocks than there are": lambda h: h["buffers"][0].__setitem__(2, 10**6),
    "a buffer of another size": lambda h: h["buffers"][0].__setitem__(1, 10),
    "a buffer too large for memory": lambda h: h["buffers"][0].__setitem__(1, 2**60),
    "a size that hides another": lambda h: h["buffers"].extend(
        [["x", 2**60, 0], ["y", -(2**60), 0]]
    ),
    "a token that is infinite": lambda h: h["tokens"].__setitem__(0, float("inf")),
    "rings": lambda h: h["oldest"].append(1),
    "a missing entry": lambda h: h.pop("tokens"),
    "a wrong type": lambda h: h.__setitem__("tokens", 5),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_with_a_right_hash_and_wrong_values_is_refused(
    model: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    content = saved(model, tmp_path / "state")
    (length,) = struct.unpack("<Q", content[8:16])
    header = json.loads(content[16 : 16 + length])
    change(header)
    text = json.dumps(header).encode()
    body = content[:8] + struct.pack("<Q", len(text)) + text + content[16 + length : -32]
    (tmp_path / "state").write_bytes(body + hashlib.sha256(body).digest())
    unchanged(model, tmp_path / "state", InvalidExternalData, "expected a whole session file")


def test_a_missing_file_and_a_missing_folder_are_errors_of_the_system(
    model: Path, tmp_path: Path
) -> None:
    session = Session(model)
    with pytest.raises(FileNotFoundError):
        session.restore(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="make it first"):
        session.save(tmp_path / "none" / "state")
