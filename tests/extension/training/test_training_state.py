"""State of a training in data files: saved, restored, run by an inference program, refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from extension.training.digits_program import Classifier, batches, held_out, program
from support.tolerance import F32_MODEL, assert_near

from executorch_py import _C
from executorch_py.errors import (
    AccessFailed,
    InvalidArgument,
    InvalidExternalData,
    InvalidType,
    NotFound,
)
from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.serialize.ptd import deserialize_data_file
from executorch_py.extension.training import (
    TrainingModule,
    _load_for_executorch_for_training_from_buffer,
    get_adam_optimizer,
    get_adamw_optimizer,
    get_sgd_optimizer,
    load_state,
    save_state,
)
from executorch_py.runtime import Runtime

MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sgd": lambda parameters: get_sgd_optimizer(parameters, 0.1),
    "momentum": lambda parameters: get_sgd_optimizer(parameters, 0.1, 0.9),
    "adam": get_adam_optimizer,
    "adamw": lambda parameters: get_adamw_optimizer(parameters, amsgrad=True),
}


def load() -> TrainingModule:
    return _load_for_executorch_for_training_from_buffer(program())


def train(module: TrainingModule, optimizer: Any, first: int, last: int) -> None:
    for batch in batches()[first:last]:
        module.forward_backward("forward", batch)
        optimizer.step(module.named_gradients())


def copies(tensors: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(value).clone() for name, value in tensors.items()}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value)), name


@pytest.mark.parametrize("name", MAKERS)
def test_training_goes_on_from_a_file_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    straight = load()
    optimizer = MAKERS[name](straight.named_parameters())
    train(straight, optimizer, 0, 3)
    save_state(tmp_path / "state.ptd", straight, optimizer)
    train(straight, optimizer, 3, 6)

    resumed = load()
    other = MAKERS[name](resumed.named_parameters())
    load_state(tmp_path / "state.ptd", resumed, other)
    train(resumed, other, 3, 6)
    assert_same(resumed.named_parameters(), straight.named_parameters())
    assert_same(other.state(), optimizer.state())


def test_parameters_alone_are_restored_from_a_file_with_an_optimizer(tmp_path: Path) -> None:
    module = load()
    optimizer = get_adam_optimizer(module.named_parameters())
    train(module, optimizer, 0, 1)
    save_state(tmp_path / "state.ptd", module, optimizer)
    other = load()
    load_state(tmp_path / "state.ptd", other)
    assert_same(other.named_parameters(), module.named_parameters())


def test_the_exporters_reader_finds_each_tensor(tmp_path: Path) -> None:
    module = load()
    optimizer = get_sgd_optimizer(module.named_parameters(), 0.1, 0.9)
    train(module, optimizer, 0, 2)
    save_state(tmp_path / "state.ptd", module, optimizer)
    payload = deserialize_data_file((tmp_path / "state.ptd").read_bytes())
    expected = {**module.named_parameters(), **optimizer.state()}
    assert list(payload.named_data) == list(expected)
    for name, value in copies(expected).items():
        entry = payload.named_data[name]
        layout = entry.tensor_layout
        assert layout is not None and layout.sizes == list(value.shape)
        assert payload.buffers[entry.buffer_index] == value.numpy().tobytes()


def test_an_inference_program_runs_with_the_trained_weights(tmp_path: Path) -> None:
    class Scores(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            features = torch.relu(self.conv(x)).flatten(1)
            scores: torch.Tensor = self.last(torch.relu(self.hidden(features)))
            return scores

    images = held_out()[0]
    exported = torch.export.export(Scores().eval(), (images,))
    config = ExecutorchBackendConfig(external_constants=True)
    buffer = to_edge(exported).to_executorch(config).buffer
    module = load()
    optimizer = get_sgd_optimizer(module.named_parameters(), 0.1, 0.9)
    train(module, optimizer, 0, 3)
    save_state(tmp_path / "trained.ptd", module, optimizer)
    loaded = Runtime.get().load_program(bytes(buffer), data_path=tmp_path / "trained.ptd")
    (found,) = loaded.load_method("forward").execute([images])
    eager = Scores()
    eager.load_state_dict(copies(module.named_parameters()))
    assert_near(found, eager(images).detach(), F32_MODEL)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"last.bias": None}, NotFound, "expected an entry 'last.bias', got none among 23"),
        ({"adam/exp_avg/last.bias": None}, NotFound, "an entry 'adam/exp_avg/last.bias', got none"),
        ({"adam/step/last.bias": None}, NotFound, "an entry 'adam/step/last.bias', got none"),
        ({"last.bias": np.zeros(10)}, InvalidArgument, "'last.bias': expected dtype f32, got f64"),
        ({"last.bias": np.zeros(9, "f")}, InvalidArgument, "expected size 10, got 9"),
        ({"last.bias": np.zeros((1, 10), "f")}, InvalidArgument, "expected 1 dimensions, got 2"),
        (
            {"last.weight": np.zeros((32, 10), "f").T},
            InvalidArgument,
            r"expected the dim order of the tensor, \[0, 1\], got \[1, 0\]",
        ),
        ({"adam/step/last.bias": np.array(-1)}, InvalidArgument, "a step of 0 or more, got -1"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_changes_nothing(
    changed: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    module = load()
    optimizer = get_adam_optimizer(module.named_parameters())
    train(module, optimizer, 0, 1)
    tensors = {**module.named_parameters(), **optimizer.state(), **changed}
    kept = {name: value for name, value in tensors.items() if value is not None}
    (tmp_path / "state.ptd").write_bytes(_C.data_file_bytes(kept))
    train(module, optimizer, 1, 2)
    before = copies(module.named_parameters()), copies(optimizer.state())
    with pytest.raises(error, match=message):
        load_state(tmp_path / "state.ptd", module, optimizer)
    assert_same(module.named_parameters(), before[0])
    assert_same(optimizer.state(), before[1])


def test_the_state_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    module = load()
    save_state(tmp_path / "state.ptd", module, get_adam_optimizer(module.named_parameters()))
    with pytest.raises(NotFound, match=r"expected an entry 'sgd/step/conv\.weight'"):
        load_state(tmp_path / "state.ptd", module, get_sgd_optimizer(module.named_parameters()))


def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    module = load()
    save_state(tmp_path / "state.ptd", module)
    content = (tmp_path / "state.ptd").read_bytes()
    (tmp_path / "short.ptd").write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidExternalData):
        load_state(tmp_path / "short.ptd", module)
    with pytest.raises(AccessFailed, match=r"absent\.ptd"):
        load_state(tmp_path / "absent.ptd", module)


def test_data_files_hold_any_dtype_rank_and_layout() -> None:
    tensors = {
        "scalar": torch.tensor(7),
        "": torch.tensor([1.0, 2.0]),
        "empty": torch.zeros(0, 3, dtype=torch.float16),
        "half": torch.randn(3, 5).bfloat16(),
        "flags": torch.tensor([True, False, True]),
        "turned": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "a name of é": torch.randn(17, dtype=torch.float64),
    }
    content = _C.data_file_bytes(tensors)
    targets = {name: torch.zeros_like(value) for name, value in tensors.items()}
    _C.load_data_file(content, targets)
    assert_same(targets, tensors)
    assert list(deserialize_data_file(content).named_data) == list(tensors)
    assert not deserialize_data_file(_C.data_file_bytes({})).named_data


@pytest.mark.parametrize("key", [3, "a\0b"])
def test_keys_that_no_file_can_hold_are_refused(key: Any) -> None:
    with pytest.raises(InvalidType, match="expected a text without NUL as key"):
        _C.data_file_bytes({key: np.zeros(3)})


def test_state_has_the_layout_of_its_parameter() -> None:
    value = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    optimizer = get_adam_optimizer({"w": value})
    optimizer.step({"w": torch.randn(4, 3, 2, 2)})
    strides = [stride // 4 for stride in optimizer.slots["w"][0].strides]
    assert strides == list(value.stride())
