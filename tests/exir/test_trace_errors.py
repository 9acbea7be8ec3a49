"""Errors of torch.export: cause, the user's line, a rewrite that exports and runs; torch's page."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.paths import ROOT
from support.tolerance import EXACT, assert_near
from torch import nn
from torch.export import Dim, export

from executorch_py.exir import readable_errors, to_edge, trace_errors
from executorch_py.exir.error import ExportError
from executorch_py.exir.trace_errors import TraceError
from executorch_py.export import export as export_session
from executorch_py.extension.export_util import export_to_edge

X = torch.ones(2, 3)
IDS = torch.tensor([1, 2, 3])
BATCH = Dim("batch", max=8)


class Model(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def branch(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def rounds(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.max())):
        x = x + 1
    return x


def sized(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(int(x.max()))


def until(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 10:
        x = x + 1
    return x


def rows(x: torch.Tensor) -> torch.Tensor:
    found = x.nonzero()
    if found.shape[0] == 0:
        return x
    return x[found[:, 0]]


def asserted(x: torch.Tensor) -> torch.Tensor:
    assert x.max() < 5, "too large"
    return x * 2


def printed(x: torch.Tensor) -> torch.Tensor:
    print(f"{x.max().item():.3f}")
    return x * 2


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


def reshaped(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(2, 3) + 1


def by_size(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 4 else x


@pytest.mark.parametrize(
    ("function", "x", "cause", "line", "rewrite"),
    [
        (branch, X, "branch on values", "if x.sum() > 0:", "torch.where(x.sum() > 0,"),
        (branch, X, "branch on values", "if x.sum() > 0:", "torch.cond(x.sum() > 0,"),
        (sized, IDS, "Python number", "torch.zeros(int(x.max()))", "n = x.max().item()"),
        (sized, IDS, "Python number", "torch.zeros(int(x.max()))", "torch._check(n <= 128)"),
        (rounds, IDS, "Python number", "range(int(x.max()))", "torch.where(i < limit, step(x), x)"),
        (until, X, "loop whose end", "while x.sum() < 10:", "while_loop(lambda x: x.sum() < 10,"),
        (rows, X, "a size that depends", "if found.shape", "torch._check(found.shape[0] != 0)"),
        (asserted, X, "an assertion", "assert x.max() < 5", "torch.compiler.is_exporting()"),
        (printed, X, "format", "print(f", "if not torch.compiler.is_exporting(): print("),
        (through_numpy, X, "NumPy", "torch.from_numpy(", "strict=True"),
    ],
)
def test_the_cause_the_line_and_a_rewrite_replace_torchs_page(
    function: Callable[..., Any], x: torch.Tensor, cause: str, line: str, rewrite: str
) -> None:
    with pytest.raises(TraceError) as caught, readable_errors():
        export(Model(function), (x,))
    text = str(caught.value)
    assert len(text.splitlines()) <= 12
    assert cause in text.splitlines()[0]
    assert "test_trace_errors.py, line" in text and f"in {function.__name__}" in text
    assert line in text
    assert rewrite in text
    assert caught.value.__cause__ is None  # so that Python does not print torch's page
    assert caught.value.__context__ is not None
    assert isinstance(caught.value, ExportError) and isinstance(caught.value, RuntimeError)


def check_rewrite(function: Callable[..., Any], *inputs: Any, **options: Any) -> None:
    model = Model(function)
    program = to_edge(export(model, inputs, **options)).to_executorch()
    assert_near(program.run(*inputs), model(*inputs), EXACT)


def test_the_rewrites_export_and_run() -> None:
    def symbolic(x: torch.Tensor) -> torch.Tensor:
        n = x.max().item()
        torch._check(n >= 0)
        torch._check(n <= 128)
        return torch.zeros(n)  # type: ignore[call-overload, no-any-return]

    def masked(x: torch.Tensor) -> torch.Tensor:
        limit = x.max()
        for i in range(16):
            x = torch.where(i < limit, x + 1, x)
        return x

    def promised(x: torch.Tensor) -> torch.Tensor:
        found = x.nonzero()
        torch._check(found.shape[0] != 0)
        if found.shape[0] == 0:
            return x
        return x[found[:, 0]]

    def looped(x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops import while_loop

        (x,) = while_loop(lambda x: x.sum() < 10, lambda x: (x + 1,), (x,))
        return x

    def eager_only(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            assert x.max() < 5
        return x * 2

    check_rewrite(lambda x: torch.where(x.sum() > 0, x * 2, x - 1), X)
    check_rewrite(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), X)
    check_rewrite(symbolic, IDS)
    check_rewrite(masked, IDS)
    check_rewrite(promised, X)
    check_rewrite(looped, X)
    check_rewrite(eager_only, X)
    check_rewrite(through_numpy, X, strict=True)
    check_rewrite(
        lambda x: x.reshape(x.shape[0], -1) + 1, X, dynamic_shapes={"args": ({0: BATCH},)}
    )


@pytest.mark.parametrize("strict", [False, True])
def test_a_dimension_that_the_model_fixes_is_named_with_the_line(strict: bool) -> None:
    with pytest.raises(TraceError) as caught, readable_errors():
        export(Model(reshaped), (X,), dynamic_shapes={"args": ({0: BATCH},)}, strict=strict)
    text = str(caught.value)
    assert "Dynamic dimension 'batch' is fixed by the model: it takes size 2 only" in text
    assert "x.reshape(2, 3) + 1" in text and "in reshaped" in text
    assert len(text.splitlines()) <= 12


def test_a_narrower_range_is_given_as_the_dim_to_write() -> None:
    shapes = {"args": ({0: BATCH},)}
    with pytest.raises(TraceError) as caught, readable_errors():
        export(Model(by_size), (X,), dynamic_shapes=shapes)
    assert "batch = torch.export.Dim('batch', max=4)" in str(caught.value)
    assert "if x.shape[0] > 4" in str(caught.value)
    narrow = {"args": ({0: torch.export.Dim("batch", max=4)},)}
    check_rewrite(by_size, X, dynamic_shapes=narrow)


def test_an_example_of_size_one_is_the_cause_that_is_named() -> None:
    shapes = {"args": ({0: BATCH},)}
    with pytest.raises(TraceError, match="example of size 2 or more") as caught, readable_errors():
        export(Model(lambda x: x + 1), (X[:1].clone(),), dynamic_shapes=shapes)
    assert "has size 1 in the example inputs" in str(caught.value)


class Packed(nn.Module):
    """A recurrent layer over packed sequences, or over the padded batch as the message says."""

    def __init__(self, is_packed: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.is_packed = is_packed

    def forward(self, padded: torch.Tensor, lengths: torch.Tensor) -> Any:
        if self.is_packed:
            packed = nn.utils.rnn.pack_padded_sequence(padded, lengths, True, False)
            output, _ = self.lstm(packed)
            output, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        else:
            output, _ = self.lstm(padded)
            output = output * (torch.arange(padded.shape[1]) < lengths[:, None])[..., None]
        return output, output[torch.arange(padded.shape[0]), lengths - 1]


@pytest.mark.parametrize("strict", [False, True])
def test_packed_sequences_are_named_and_the_padded_rewrite_equals_them(strict: bool) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 4), torch.tensor([3, 2]))
    packed, padded = Packed(True), Packed(False)
    padded.load_state_dict(packed.state_dict())
    with pytest.raises(TraceError, match="packed sequences") as caught, readable_errors():
        export(packed, inputs, strict=strict)
    assert len(str(caught.value).splitlines()) <= 12
    torch.testing.assert_close(padded(*inputs), packed(*inputs))
    torch.testing.assert_close(
        to_edge(export(padded, inputs)).to_executorch().run(*inputs), packed(*inputs)
    )


def test_a_packed_sequence_as_an_input_is_named() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 4), torch.ones(2, 4)])
    lstm = nn.LSTM(4, 5)
    with pytest.raises(TraceError, match="cannot trace packed sequences"), readable_errors():
        export(Model(lambda p: lstm(p)[0].data, lstm=lstm), (packed,))


class KeyCache:
    """A cache that torch.export knows as little as transformers' StaticCache."""

    def __init__(self) -> None:
        self.keys = torch.zeros(2, 3)


@dataclasses.dataclass
class Pair:
    """A dataclass that is not registered."""

    first: torch.Tensor


@pytest.mark.parametrize("strict", [False, True])
def test_caches_as_inputs_and_outputs_are_answered_with_buffers(strict: bool) -> None:
    for model, inputs in (
        (Model(lambda x, cache: x + cache.keys), (X, KeyCache())),
        (Model(lambda x: (x + 1, KeyCache())), (X,)),
    ):
        with pytest.raises(TraceError, match="KeyCache") as caught, readable_errors():
            export(model, inputs, strict=strict)
        assert 'register_buffer("keys"' in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 12

    class InBuffers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(1, 2, 8, 3))

        def forward(self, key: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            self.keys[:, :, position] = key
            return self.keys.sum(2)

    inputs = (torch.ones(1, 2, 1, 3), torch.tensor([2]))
    result = to_edge(export(InBuffers(), inputs)).to_executorch().run(*inputs)
    assert_near(result, InBuffers()(*inputs), EXACT)


def test_a_dataclass_is_told_to_be_registered_and_other_classes_are_not() -> None:
    with pytest.raises(TraceError) as caught, readable_errors():
        export(Model(lambda pair: pair.first + 1), (Pair(X),))
    assert "torch.export.register_dataclass(Pair)" in str(caught.value)
    assert isinstance(caught.value, ValueError)  # as torch's error is
    with pytest.raises(TraceError) as caught, readable_errors():
        export(Model(lambda x, y: x), (X, object()))
    assert "register_dataclass" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: export(Model(branch), X),
            r"expected a tuple .* got a torch.Tensor.\nWrite \(x,\)",
        ),
        (lambda: export(branch, (X,)), "expected a torch.nn.Module, got a function"),  # type: ignore[arg-type]
        (
            lambda: export(nn.ReLU(), (X,), dynamic_shapes={"y": {0: BATCH}}),
            "arguments 'input' as keys, got 'y'",
        ),
        (
            lambda: export(nn.ReLU(), (X,), dynamic_shapes=({0: BATCH}, None)),
            "expected 1 items, one for each input, got 2",
        ),
        (lambda: export(nn.ReLU(), (X, X)), "too many positional arguments"),
        (lambda: export(nn.ReLU(), (X,), dynamic_shapes=({5: BATCH},)), "below the rank"),
        (
            lambda: export(nn.ReLU(), (torch.ones(20, 3),), dynamic_shapes=({0: BATCH},)),
            "size 20 in a dynamic dimension of 2 to 8",
        ),
    ],
)
def test_wrong_arguments_of_the_call_are_short(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught, readable_errors():
        call()
    assert len(str(caught.value).splitlines()) <= 4


def test_torchs_page_is_the_cause_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError) as caught, readable_errors(verbose=True):
        export(Model(branch), (X,))
    assert "data-dependent expression" in str(caught.value.__cause__)
    monkeypatch.setenv("EXECUTORCH_PY_VERBOSE", "1")
    with pytest.raises(TraceError) as caught, readable_errors():
        export(Model(branch), (X,))
    assert "data-dependent expression" in str(caught.value.__cause__)


@pytest.mark.parametrize("builtin", [ValueError, TypeError, IndexError])
def test_errors_of_one_kind_have_one_class(builtin: type[Exception]) -> None:
    made = [trace_errors._class_for(builtin("x")) for _ in range(2)]
    assert made[0] is made[1] and issubclass(made[0], TraceError) and issubclass(made[0], builtin)


def test_unknown_errors_pass_unchanged() -> None:
    def failing(x: torch.Tensor) -> torch.Tensor:
        raise LookupError("of the model")

    with pytest.raises(LookupError, match="of the model"), readable_errors():
        export(Model(failing), (X,))


def test_sessions_and_helpers_that_call_torch_export_explain_its_errors() -> None:
    with pytest.raises(TraceError, match="branch on values"):
        export_to_edge(Model(branch), (X,), strict=False)
    with pytest.raises(TraceError, match="branch on values"):
        export_session(Model(branch), [(X,)])


def test_a_script_prints_the_short_message_alone(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from executorch_py.exir import readable_errors\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.sum() > 0:\n"
        "            return x\n"
        "        return -x\n"
        "with readable_errors():\n"
        "    torch.export.export(Model(), (torch.ones(2),))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 1
    assert "script.py, line 5, in forward" in done.stderr
    assert "docs.google.com" not in done.stderr
