"""Networks that learn on the C runtime: equal to eager step by step, and good at their task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from extension.training.digits_program import Classifier, batches, held_out, program
from support.tolerance import F32_MODEL, assert_near

from executorch_py.errors import InvalidArgument
from executorch_py.exir import to_edge
from executorch_py.extension.training import (
    TrainingModule,
    _load_for_executorch_for_training,
    _load_for_executorch_for_training_from_buffer,
    get_adam_optimizer,
    get_adamw_optimizer,
    get_sgd_optimizer,
)

OPTIMIZERS = {
    "sgd": (get_sgd_optimizer, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adam": (get_adam_optimizer, torch.optim.Adam, {"lr": 3e-3}),
    "adamw": (get_adamw_optimizer, torch.optim.AdamW, {"lr": 3e-3, "weight_decay": 0.05}),
}


def load() -> TrainingModule:
    return _load_for_executorch_for_training_from_buffer(program())


def accuracy(module: TrainingModule) -> float:
    """Share of the held-out digits that the program itself takes for the right ones."""
    images, labels = held_out()
    found = module.forward_backward("forward", (images, labels))[1]
    return float((found == labels).float().mean())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_first_steps_equal_eager(name: str) -> None:
    ours, theirs, options = OPTIMIZERS[name]
    module, model = load(), Classifier()
    optimizer = ours(module.named_parameters(), **options)
    reference = theirs(model.parameters(), **options)
    for images, labels in batches()[:4]:
        loss, found = module.forward_backward("forward", (images, labels))
        optimizer.step(module.named_gradients())
        reference.zero_grad()
        expected, digits = model(images, labels)
        expected.backward()
        reference.step()
        assert_near(loss, expected.detach(), F32_MODEL)
        assert torch.equal(found, digits)
        for fqn, parameter in model.named_parameters():
            assert_near(module.named_gradients()[fqn], parameter.grad, F32_MODEL)
            assert_near(module.named_parameters()[fqn], parameter.detach(), F32_MODEL)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_handwritten_digits_are_learned_to_95_percent(name: str) -> None:
    make, _, options = OPTIMIZERS[name]
    module = load()
    assert accuracy(module) < 0.3
    optimizer = make(module.named_parameters(), **options)
    for _ in range(6):
        for batch in batches():
            module.forward_backward("forward", batch)
            optimizer.step(module.named_gradients())
    assert accuracy(module) > 0.95


def test_arrays_of_numpy_train_the_same_weights_as_tensors() -> None:
    trained: list[dict[str, Any]] = []
    convert: Callable[[torch.Tensor], Any]
    for convert in (lambda value: value, lambda value: value.numpy()):
        module = load()
        for images, labels in batches()[:2]:
            inputs = (convert(images), convert(labels))
            outputs = module.forward_backward("forward", inputs)
            assert type(outputs[0]) is type(inputs[0])
            optimizer = get_sgd_optimizer(module.named_parameters(), 0.1)
            optimizer.step(module.named_gradients())
        trained.append(
            {
                name: torch.as_tensor(value).clone()
                for name, value in module.named_parameters().items()
            }
        )
    for name, value in trained[0].items():
        assert torch.equal(value, trained[1][name])


def test_parameters_have_the_values_of_the_file_before_the_first_run() -> None:
    expected = dict(Classifier().named_parameters())
    found = load().named_parameters()
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert torch.equal(torch.as_tensor(found[name]), value)


def test_gradients_of_an_earlier_run_stay_as_they_were() -> None:
    module = load()
    first, second = batches()[:2]
    module.forward_backward("forward", first)
    kept = module.named_gradients()
    copies = {name: value.clone() for name, value in kept.items()}
    module.forward_backward("forward", second)
    for name, value in kept.items():
        assert torch.equal(value, copies[name])
        assert not torch.equal(value, module.named_gradients()[name])


def test_a_program_in_a_file_trains_as_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "digits.pte"
    path.write_bytes(program())
    found = _load_for_executorch_for_training(path).forward_backward("forward", batches()[0])
    expected = load().forward_backward("forward", batches()[0])
    assert torch.equal(found[0], expected[0])


def test_gradients_before_a_run_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected a call of forward_backward before"):
        load().named_gradients()


def test_a_program_without_gradients_is_refused_with_a_remedy() -> None:
    exported = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    buffer = to_edge(exported).to_executorch().buffer
    module = _load_for_executorch_for_training_from_buffer(buffer)
    assert module.training_methods() == []
    with pytest.raises(InvalidArgument, match="_export_forward_backward"):
        module.forward_backward("forward", (torch.ones(1, 3),))
    with pytest.raises(InvalidArgument, match="expected a program with one training method"):
        module.named_parameters()
