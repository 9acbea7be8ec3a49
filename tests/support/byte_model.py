"""A language model of about a million weights that reads bytes, trained in about a minute.

The text is the manual of Python's language, which Python ships. Unlike a model of random weights it
predicts, so that perplexity shows what weights and caches of few bits cost.
"""

from __future__ import annotations

from pydoc_data.topics import topics
from typing import Any

import torch

from support.decoders import build

WINDOW, CONTEXT = 256, 32  # what is behind the context is predicted
N_WINDOWS = 90
BATCH, LENGTH, N_STEPS = 8, 96, 80
WARM_UP = 10


def text() -> torch.Tensor:
    """The bytes of the manual, i64 [N]."""
    manual = "\n\n".join(topics[topic] for topic in sorted(topics))
    return torch.tensor(list(manual.encode()))


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """The bytes to learn from, and the last ones, i64 [N_WINDOWS, WINDOW], to be predicted."""
    every = text()
    n_kept = N_WINDOWS * WINDOW
    return every[:-n_kept], every[-n_kept:].view(N_WINDOWS, WINDOW)


def train() -> Any:
    """A decoder of the Llama family with four layers; the same weights on one machine."""
    sizes = {"hidden_size": 128, "intermediate_size": 448, "num_hidden_layers": 4}
    model = build("Llama", {**sizes, "vocab_size": 256, "max_position_embeddings": WINDOW}).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, (N_STEPS - step) / N_STEPS)
    )
    known, _ = texts()
    for _ in range(N_STEPS):
        starts = torch.randint(len(known) - LENGTH, (BATCH, 1))
        batch = known[starts + torch.arange(LENGTH)]
        loss = model(batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.eval()


def eager_perplexity(model: Any) -> float:
    """That of each window behind its context, in torch."""
    losses = []
    with torch.no_grad():
        for batch in texts()[1].split(15):
            logits = model(batch).logits[:, CONTEXT - 1 : -1].double()
            losses.append(torch.nn.functional.cross_entropy(logits.mT, batch[:, CONTEXT:]))
    return float(torch.stack(losses).mean().exp())
