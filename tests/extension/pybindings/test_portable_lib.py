"""The older Python interface: upstream's names, results and error codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.paths import GOLDEN
from support.program_maker import adder, program_bytes

from executorch_py import errors
from executorch_py.extension.pybindings import _portable_lib, portable_lib
from executorch_py.extension.pybindings.data_loader import PyDataLoader

DATA = program_bytes(adder(), adder(name="other"))
X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


def test_modules_run_methods_by_name(tmp_path: Path) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes(DATA)
    for module in (
        portable_lib._load_for_executorch(str(path)),
        portable_lib._load_for_executorch_from_buffer(DATA),
        portable_lib._load_for_executorch_from_data_loader(PyDataLoader(path)),
        _portable_lib._load_for_executorch_from_data_loader(_portable_lib.PyDataLoader(DATA)),
    ):
        assert module.method_names() == ["forward", "other"]
        for outputs in (
            module.forward([X, X]),
            module((X, X)),
            module.run_method("other", [X, X]),
            module.forward([X, X], clone_outputs=False),
        ):
            torch.testing.assert_close(outputs[0], X + X)
        torch.testing.assert_close(module.plan_execute("forward")[0], X + X)
        assert module.method_meta("forward").num_inputs() == 2
        assert not module.has_etdump()


def test_programs_load_methods_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes(DATA)
    for program in (
        portable_lib._load_program(path),
        portable_lib._load_program_from_buffer(DATA),
    ):
        assert program.num_methods() == 2
        assert program.get_method_name(1) == "other"
        method = program.load_method("other")
        method.set_inputs([X, X])
        method.execute()
        torch.testing.assert_close(method.get_outputs()[0], X + X)
        torch.testing.assert_close(method([X, X + 1])[0], X + X + 1)
        torch.testing.assert_close(method.call([X, X], clone_outputs=False)[0], X + X)
        assert method.method_meta().name() == "other"
        with pytest.raises(RuntimeError, match="0x12"):
            program.get_method_name(2)
        with pytest.raises(RuntimeError, match="0x20"):
            method.get_attribute("absent")


def test_one_tensor_is_a_list_of_one_input() -> None:
    method = adder()
    x, out = method.inputs[0], method.outputs[0]
    method.instructions.clear()
    method.operators.clear()
    method.add(x, x, out)
    method.inputs = [x]
    module = portable_lib._load_for_executorch_from_buffer(program_bytes(method))
    torch.testing.assert_close(module.forward(X)[0], X + X)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda m: m.forward([]), "0x12"),
        (lambda m: m.forward([X.double(), X]), "0x12"),
        (lambda m: m.forward([X[:1], X]), "0x10"),
        (lambda m: m.forward([object(), X]), "0x12"),
        (lambda m: m.run_method("absent", [X]), "0x12"),
        (lambda m: m.method_meta("absent"), "0x12"),
        (lambda m: portable_lib._load_for_executorch("/absent.pte"), "0x22"),
        (lambda m: portable_lib._load_for_executorch_from_buffer(b"x" * 100), "0x23"),
    ],
)
def test_errors_are_runtime_errors_with_upstreams_codes(call: Any, code: str) -> None:
    module = portable_lib._load_for_executorch_from_buffer(DATA)
    with pytest.raises(RuntimeError, match=code):
        call(module)


@pytest.mark.parametrize(
    "call",
    [
        lambda: portable_lib._load_for_executorch_from_buffer(DATA, enable_etdump=True),
        lambda: portable_lib._load_program_from_buffer(DATA, debug_buffer_size=1),
        lambda: portable_lib._create_profile_block("name"),
        lambda: portable_lib._dump_profile_results(),
        lambda: portable_lib._reset_profile_results(),
        lambda: portable_lib._load_for_executorch_from_buffer(DATA).write_etdump_result_to_file(""),
        lambda: portable_lib._load_program_from_buffer(DATA).write_etdump_result_to_file(""),
    ],
)
def test_functions_that_this_version_lacks_are_errors(call: Any) -> None:
    with pytest.raises(errors.NotSupported, match="this version"):
        call()


def test_registries_are_listed_and_threads_are_set() -> None:
    assert "aten::add.out" in portable_lib._get_operator_names()
    assert portable_lib._is_available("ReferenceBackend")
    assert not portable_lib._is_available("NoSuchBackend")
    assert "ReferenceBackend" in portable_lib._get_registered_backend_names()
    before = portable_lib._threadpool_get_thread_count()
    portable_lib._unsafe_reset_threadpool(3)
    try:
        assert portable_lib._threadpool_get_thread_count() == 3
        module = portable_lib._load_for_executorch_from_buffer(DATA)
        torch.testing.assert_close(module.forward([X, X])[0], X + X)
    finally:
        portable_lib._unsafe_reset_threadpool(before)
    with pytest.raises(ValueError, match="num_threads: expected 1 or more, got"):
        portable_lib._unsafe_reset_threadpool(0)


def test_methods_of_a_module_have_memory_of_their_own() -> None:
    module = portable_lib._load_for_executorch_from_buffer(DATA)
    (first,) = module.run_method("forward", (X, X), clone_outputs=False)
    (second,) = module.run_method("other", (X, X * 5), clone_outputs=False)
    torch.testing.assert_close([first, second], [X * 2, X * 6])


def test_a_missing_backend_is_named_with_a_remedy() -> None:
    delegated = (GOLDEN / "xnnpack.pte").read_bytes()
    assert delegated.count(b"XnnpackBackend") == 1
    data = delegated.replace(b"XnnpackBackend", b"AnotherBackend")
    module = portable_lib._load_for_executorch_from_buffer(data)
    assert module.method_names() == ["forward"]
    with pytest.raises(errors.NotFound, match=r"AnotherBackend .*export without its partitioner"):
        module.run_method("forward", (X,))


def test_xnnpacks_programs_load_or_name_a_remedy() -> None:
    path = GOLDEN / "xnnpack.pte"
    module = portable_lib._load_for_executorch(path)
    if portable_lib._is_available("XnnpackBackend"):
        module.run_method("forward", (X,))
    else:
        with pytest.raises(errors.NotFound, match=r"without XNNPACK; `executorch_py doctor` says"):
            module.run_method("forward", (X,))
