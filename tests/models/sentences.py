"""Sentences for encoders: pairs that mean nearly the same, and others to calibrate with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

PAIRS = (
    ("A cat sleeps on the warm windowsill.", "The kitten is napping in the sun."),
    ("Stock markets fell sharply on Monday.", "Shares dropped at the start of the week."),
    ("How do I cook rice without a cooker?", "Boil the grains in a pot with twice as much water."),
    (
        "The train to Vienna leaves at noon.",
        "Departure of the railway to the capital is at twelve.",
    ),
    ("She plays the violin in an orchestra.", "A musician performs with a string instrument."),
    ("The patient was given antibiotics.", "Doctors treated the infection with medicine."),
    ("Rain is expected across the north tomorrow.", "The forecast says it will be wet up there."),
    ("He repaired the engine of the old truck.", "A mechanic fixed the motor of the lorry."),
    ("The telescope found a distant galaxy.", "Astronomers observed stars far away."),
    ("Parliament passed a new tax law.", "Legislators approved the bill on levies."),
    ("Children are building a castle of sand.", "Kids play on the beach with buckets."),
    ("The password has to have twelve characters.", "Choose a longer secret to log in."),
    ("Bees make honey from the nectar of flowers.", "Insects collect sugar from blossoms."),
    ("The goalkeeper saved a penalty.", "A shot from the spot was stopped in the match."),
    ("Add two spoons of sugar to the dough.", "Sweeten the cake mixture before baking it."),
    ("The museum shows paintings of the Renaissance.", "Old Italian art is on display."),
)
SENTENCES = tuple(sentence for pair in PAIRS for sentence in pair)


def statements() -> list[str]:
    """Other English sentences of this kind, about three thousand tokens, for calibration."""
    return Path(__file__).with_name("statements.txt").read_text("utf8").splitlines()


def tokenizer(folder: Path) -> Callable[[str], tuple[torch.Tensor, torch.Tensor]]:
    """The tokenizer of a folder: a sentence to token ids and mask, [1, n] of int64 each."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoder.no_padding()
    encoder.enable_truncation(128)

    def encode(sentence: str) -> tuple[torch.Tensor, torch.Tensor]:
        numbers = torch.tensor([encoder.encode(sentence).ids])
        return numbers, torch.ones_like(numbers)

    return encode


def neighbours(vectors: torch.Tensor) -> torch.Tensor:
    """Index of the nearest other vector of each vector; [sentences, n], all of length 1."""
    return (vectors @ vectors.T).fill_diagonal_(-1.0).argmax(1)
