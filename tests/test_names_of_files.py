"""Names in program files that hold control characters or are a megabyte long, on every way out.

Each command and each error is given files whose names could move a terminal's cursor, change its
colours or reverse its text. None of these characters may reach the output; printable Unicode must.
"""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program_maker import MethodMaker, adder, program_bytes

from executorch_py import errors
from executorch_py.cli.main import main
from executorch_py.exir import schema as s
from executorch_py.exir.print_program import print_program
from executorch_py.exir.serialize.pte import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch_py.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from executorch_py.runtime import Runtime
from executorch_py.terminal_text import message_text, name_text, quoted, quoted_list

CONTROLS = "\x1b[31m\r\x07\x08\x7f\x85\x9b2J\u202e\u202a\u2066\u2069\u200e\u200f\u2028\u2029\t\n"
PRINTABLE = "é名前🙂"
# Replaced in the file by bytes that are not UTF-8: a stray byte and a lone surrogate.
MARK, BYTES = b"<bytes>", b"\xff\xed\xa0\x80\xfe\xc0\x80"
HOSTILE = f"x{CONTROLS}{PRINTABLE}{MARK.decode()}"
LONG = "n" * 1_000_000
X = np.ones((2, 3), np.float32)


def clean(text: str) -> str:
    """The text, which must have no character that a terminal obeys but ends of lines."""
    wrong = {c for c in text if not c.isprintable() and c != "\n"}
    assert not wrong, f"{wrong} in {text!r}"
    assert len(text) < 20_000
    return text


def structures(names: list[str]) -> tuple[str, str]:
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    pair = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf] * len(names)}
    empty = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    root: dict[str, Any] = {"type": "builtins.tuple", "context": "null"}
    root["children_spec"] = [pair, empty]
    root["signature"] = {
        "inputs": [{"name": name} for name in names],
        "outputs": [{"name": name} for name in names[:2]],
    }
    return json.dumps([1, root]), ""


def named(name: str) -> MethodMaker:
    """A method that adds two tensors and returns a string; everything in it has this name."""
    maker = adder(name=name)
    extra = s.ExtraTensorInfo(0, name)
    for index in (maker.outputs[0], maker.inputs[1]):
        tensor = dataclasses.replace(maker.values[index].val, extra_tensor_info=extra)
        maker.values[index] = s.EValue(tensor)
    maker.outputs.append(maker.scalar(name))
    maker.structures = structures([name, f"second {name}"])
    return maker


def patched(data: bytes) -> bytes:
    assert len(MARK) == len(BYTES)
    return data.replace(MARK, BYTES)


def with_operator(name: str) -> bytes:
    maker = adder()
    maker.operators[0] = s.Operator(name, "out")
    return patched(program_bytes(maker))


def with_delegate(name: str) -> bytes:
    """A program with a backend, and with named data, of this name."""
    plan = dataclasses.replace(
        adder().plan(0),
        delegates=[
            s.BackendDelegate(
                id=name,
                processed=s.BackendDelegateDataReference(s.DataLocation.INLINE, 0),
                compile_specs=[],
            )
        ],
    )
    program = s.Program(
        version=0,
        execution_plan=[plan],
        constant_buffer=[s.Buffer(b"")],
        backend_delegate_data=[s.BackendDelegateInlineData(b"payload")],
        segments=[],
        constant_segment=s.SubsegmentOffsets(0, []),
        mutable_data_segments=None,
        named_data=None,
    )
    return patched(bytes(serialize_pte_binary(PTEFile(program))))


def with_external(name: str) -> bytes:
    """A program whose second input is a constant of a .ptd file that is not given."""
    maker = adder()
    outside = s.TensorDataLocation.EXTERNAL
    extra = s.ExtraTensorInfo(0, name, outside)
    tensor = dataclasses.replace(
        maker.values[maker.inputs[1]].val, extra_tensor_info=extra, allocation_info=None
    )
    maker.values[maker.inputs.pop()] = s.EValue(tensor)
    return patched(program_bytes(maker))


@pytest.fixture(params=[HOSTILE, LONG], ids=["controls", "long"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command and returns all that it printed."""

    def run(*arguments: object, status: int = 0) -> str:
        assert main([*map(str, arguments)]) == status
        printed = capfd.readouterr()
        return printed.out + printed.err

    return run


def shows(text: str, name: str) -> None:
    clean(text)
    if name == HOSTILE:
        assert PRINTABLE in text
        assert "\\x1b[31m\\" in text
    else:
        assert re.search(r"nnn… \(100000\d (characters|bytes)\) …nnn", text)


@pytest.fixture
def program(name: str, tmp_path: Path) -> Path:
    path = tmp_path / "named.pte"
    path.write_bytes(patched(program_bytes(named(name))))
    return path


# ---- commands


def test_inspect(program: Path, name: str, said: Callable[..., str]) -> None:
    shows(said("inspect", program), name)


def test_inspect_as_json_has_the_names_as_they_are(
    program: Path, name: str, said: Callable[..., str]
) -> None:
    text = said("inspect", program, "--json")
    assert all(c.isprintable() or c == "\n" for c in text)
    found = json.loads(text)["methods"][0]["name"]
    assert found == name.encode().replace(MARK, BYTES).decode(errors="surrogateescape")


@pytest.mark.parametrize("options", [["--profile"], ["--print"], ["--output"]])
def test_run(
    options: list[str], program: Path, name: str, said: Callable[..., str], tmp_path: Path
) -> None:
    if options == ["--output"]:
        options = ["--output", str(tmp_path / "out.npz")]
    if options == ["--print"] and name == LONG:
        options = []  # whole outputs are what --print is for
    shows(said("run", program, "--ones", "--threads", "1", *options), name)


def test_run_without_inputs_or_with_an_unknown_method(
    program: Path, name: str, said: Callable[..., str]
) -> None:
    shows(said("run", program, status=1), name)
    shows(said("run", program, "--ones", "--method", "absent", status=1), name)


@pytest.mark.parametrize("make", [with_operator, with_delegate, with_external])
@pytest.mark.parametrize("command", ["inspect", "run", "build-kernels"])
def test_parts_that_are_missing(
    make: Callable[[str], bytes],
    command: str,
    name: str,
    said: Callable[..., str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(make(name))
    if command == "inspect":
        text = said("inspect", path)
        assert make is with_external or shows(text, name) is None
    elif command == "run":
        shows(said("run", path, "--ones", status=1), name)
    elif make is not with_external:
        out = tmp_path / "out"
        shows(said("build-kernels", "--from", path, "--out", out, status=1), name)


def test_libraries_of_operators(said: Callable[..., str], tmp_path: Path) -> None:
    source = said("build-ops", "--example")
    found = re.search(r'"(\w+)::softcap\.out"', source)
    assert found is not None
    path = tmp_path / "ops.c"
    path.write_text(source.replace(found[1], f"{found[1]}\\033[31m\\u202e{PRINTABLE}"))
    library = tmp_path / "ops.so"
    shows(said("build-ops", path, "-o", library), HOSTILE)
    assert "\\x1b[31m\\u202e" in clean(said("doctor"))


# ---- messages and reprs


def test_reprs_and_messages_of_the_runtime(program: Path, name: str) -> None:
    loaded = Runtime.get().load_program(program)
    (method_name,) = loaded.method_names
    method = loaded.load_method(method_name)
    meta = loaded.metadata(method_name)
    for thing in (loaded, method, meta, method.signature):
        shows(repr(thing), name)
    shows(str(method.signature), name)
    shows(str(method.signature.inputs[0]), name)
    for call in (
        lambda: loaded.load_method("absent"),
        lambda: meta.input_tensor_meta(7),
        lambda: meta.output_tensor_meta(1),
        lambda: method.execute([X]),
        lambda: method.execute([X, X.astype(np.int64)]),
        lambda: method.execute([X, X[0]]),
        lambda: method.execute(3),  # type: ignore[arg-type]
        lambda: method(X),
        lambda: method(a=X, b=X),
        lambda: method.attribute("absent"),
    ):
        with pytest.raises((errors.ExecutorchError, TypeError, IndexError)) as caught:
            call()
        shows(str(caught.value), name)
    method.close()
    with pytest.raises(errors.InvalidState) as closed:
        method.execute([X, X])
    shows(str(closed.value), name)


@pytest.mark.parametrize("make", [with_operator, with_delegate, with_external])
def test_messages_of_the_extension(make: Callable[[str], bytes], name: str) -> None:
    with pytest.raises(errors.ExecutorchError) as caught:
        Runtime.get().load_program(make(name)).load_method("forward")
    shows(str(caught.value), name)


def test_messages_of_the_older_interface(program: Path, name: str) -> None:
    module = _load_for_executorch_from_buffer(program.read_bytes())
    with pytest.raises(errors.InvalidArgument) as caught:
        module.run_method("absent")
    shows(str(caught.value), name)


def test_listings_of_a_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = program_bytes(named(name))
    print_program(deserialize_pte_binary(data).program)
    listed = capsys.readouterr().out
    shows("\n".join(line for line in listed.splitlines() if line.startswith("method")), name)


def test_files_of_this_test_warn_of_nothing(program: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Runtime.get().load_program(program)


# ---- the text itself


def test_names_are_escaped_as_repr_does() -> None:
    for code in (*range(0x500), *range(0x2000, 0x2100), 0xFEFF, 0x1F642, 0xE0001):
        character = chr(code)
        shown = name_text(character)
        assert shown.isprintable()
        if character.isprintable():
            assert shown == character
        elif character not in "\t\n\r":
            assert shown == repr(character)[1:-1]
    assert name_text("\t\n\r") == r"\x09\x0a\x0d"
    assert name_text("\udcff\ud800") == r"\xff\ud800"
    assert message_text("a\n\tb\x1b") == "a\n\tb\\x1b"


def test_long_names_keep_head_tail_and_length() -> None:
    name = "head" + "m" * 1000 + "tail"
    assert name_text(name).startswith("headmmm")
    assert name_text(name).endswith("mmmtail")
    assert "(1008 characters)" in quoted(name)
    assert len(name_text(name)) < 130
    assert name_text("n" * 120) == "n" * 120
    assert quoted_list(["a", "b'"]) == repr(["a", "b'"])
