"""MiniLM with its real weights learns a task on the C runtime: a head alone, and LoRA with a head.

LoRA adds products of two thin matrices to frozen linear layers. The steps equal eager's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from support.tolerance import F32_MODEL, assert_near
from torch import nn
from torch.export.experimental import _export_forward_backward

from executorch_py.exir import to_edge
from executorch_py.extension.training import (
    TrainingModule,
    _load_for_executorch_for_training_from_buffer,
    get_adamw_optimizer,
)
from models.sentences import tokenizer
from models.transformer_models import minilm, minilm_folder

TOKENS = 14
BAD = (
    "The soup was cold and the waiter ignored us.",
    "The screen broke after two days.",
    "I waited an hour for nothing.",
    "The room smelled of smoke.",
    "A dull film with a silly plot.",
    "They lost my luggage again.",
    "The shoes fell apart in a week.",
    "Nobody answered my calls.",
)
GOOD = (
    "The soup was hot and the waiter charming.",
    "The screen is bright and sharp.",
    "Worth every minute of the wait.",
    "The room had a lovely view.",
    "A clever film with a moving plot.",
    "They found my luggage at once.",
    "The shoes fit like a glove.",
    "Friendly people answered my calls.",
)
# Sentences that are not trained on; even ones are bad.
OTHERS = (
    "The food made me ill.",
    "The food was delicious.",
    "The battery died on the first day.",
    "The battery lasts for days.",
    "A terrible hotel, never again.",
    "A wonderful hotel, see you soon.",
)


class LowRank(nn.Module):
    """A frozen linear layer plus a product of two thin matrices, which starts as zero."""

    def __init__(self, linear: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x) + self.up(self.down(x))
        return result


class Opinion(nn.Module):
    """MiniLM, frozen, and a head; returns the loss and the opinions found."""

    def __init__(self, n_adapted: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = minilm().requires_grad_(False)
        for layer in self.encoder.model.encoder.layer[6 - n_adapted :]:
            attention = layer.attention.self
            attention.query = LowRank(attention.query)
            attention.value = LowRank(attention.value)
        self.head = nn.Linear(384, 2)

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, label: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.head(8 * self.encoder(tokens, mask))
        return nn.functional.cross_entropy(scores, label), scores.detach().argmax(1)


def encoded(sentences: tuple[str, ...], labels: list[int]) -> tuple[torch.Tensor, ...]:
    """Tokens and masks of sentences, padded to one length, and their labels."""
    encode = tokenizer(minilm_folder())
    tokens, masks = torch.zeros(2, len(sentences), TOKENS, dtype=torch.int64)
    for i, sentence in enumerate(sentences):
        found = encode(sentence)[0][0]
        tokens[i, : len(found)] = found
        masks[i, : len(found)] = 1
    return tokens, masks, torch.tensor(labels)


@functools.cache
def trained_on() -> tuple[torch.Tensor, ...]:
    return encoded((*BAD, *GOOD), [0] * len(BAD) + [1] * len(GOOD))


@functools.cache
def program(n_adapted: int) -> bytes:
    size = torch.export.Dim("sentences", min=2, max=16)
    exported = torch.export.export(
        Opinion(n_adapted), trained_on(), dynamic_shapes=({0: size}, {0: size}, {0: size})
    )
    return bytes(to_edge(_export_forward_backward(exported)).to_executorch().buffer)


def mistakes(module: TrainingModule) -> int:
    """Number of wrong opinions about sentences that were not trained on."""
    tokens, masks, labels = encoded(OTHERS, [0, 1] * 3)
    found = module.forward_backward("forward", (tokens, masks, labels))[1]
    return int((found != labels).sum())


# Layers with LoRA, names of the trained parameters, most mistakes after training.
CASES: dict[str, tuple[int, Callable[[str], bool], int]] = {
    "head": (0, lambda name: name.startswith("head."), 1),
    "lora": (2, lambda name: name.startswith("head.") or ".up." in name or ".down." in name, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_opinions_are_learned_step_by_step_as_in_eager(name: str) -> None:
    n_adapted, is_trained, most = CASES[name]
    module = _load_for_executorch_for_training_from_buffer(program(n_adapted))
    parameters = module.named_parameters()
    assert parameters and all(is_trained(fqn) for fqn in parameters)
    model = Opinion(n_adapted)
    assert list(parameters) == [fqn for fqn, p in model.named_parameters() if p.requires_grad]
    optimizer = get_adamw_optimizer(parameters, lr=5e-3)
    trainable = [p for p in model.parameters() if p.requires_grad]
    reference = torch.optim.AdamW(trainable, lr=5e-3)
    losses = []
    for step in range(12):
        loss, _ = module.forward_backward("forward", trained_on())
        optimizer.step(module.named_gradients())
        losses.append(float(loss))
        if step < 3:
            reference.zero_grad()
            expected, _ = model(*trained_on())
            expected.backward()
            reference.step()
            assert_near(loss, expected.detach(), F32_MODEL)
    assert losses[-1] < losses[0] / 2
    assert mistakes(module) <= most
