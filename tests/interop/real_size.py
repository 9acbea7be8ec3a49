"""Networks of real size delegated to XNNPACK: for images, text and sequences, in float32 and
float16, with sizes known at run time only, and quantized to 8 bits.

Imported by both virtual environments; delegate_table.py exports and runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from interop.cases import Case, Inputs
from interop.delegated import Delegated, halved
from interop.networks import Decoder, _minilm, _picture, _quantized, _sentences, _vision

_VISION = ("mobilenet_v2", "mobilenet_v3_large", "resnet18", "resnet50", "vit_b_16", "swin_t")
_WORDS = 30000  # of MiniLM's vocabulary
_POSITIONS = 16  # of the decoder's cache


def _llama() -> nn.Module:
    """One block of a large model, with its embedding and its head."""
    from models.transformer_models import decoder

    sizes = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4}
    subject = decoder("Llama", **sizes, **heads, vocab_size=1000)
    return subject.build()


def _tokens(length: int) -> Inputs:
    return (torch.randint(3, 999, (1, length)),)


def _fed(first: int, n: int) -> Inputs:
    return torch.randint(0, 50, (1, n)), torch.arange(first, first + n)


def _images(batch: int) -> Inputs:
    return (torch.randn(batch, 3, 224, 224),)


def _batch(most: int) -> Callable[[], Any]:
    return lambda: ({0: torch.export.Dim("batch", min=1, max=most)},)


def _length(n_inputs: int, least: int, most: int) -> Callable[[], Any]:
    sizes = {1: torch.export.Dim("tokens", min=least, max=most)}
    return lambda: (sizes,) * n_inputs


_STILL = [
    *(Case(name, _vision(name), _picture(224)) for name in _VISION),
    Case("minilm", _minilm, lambda: _sentences(1, 128, _WORDS), from_library=True),
    Case(
        "lstm",
        lambda: nn.LSTM(64, 128, num_layers=2, batch_first=True, bidirectional=True),
        lambda: (torch.randn(1, 16, 64),),
    ),
    Case("llama", _llama, lambda: _tokens(32), from_library=True),
    Case(
        "llama_with_cache",
        lambda: Decoder(dim=256),
        lambda: _fed(0, 1),
        more=lambda: [_fed(position, 1) for position in range(1, _POSITIONS)],
        stateful=True,
    ),
]

_DYNAMIC = [
    *(
        Case(
            f"{name}_batch",
            _vision(name),
            lambda: _images(2),
            dynamic_shapes=_batch(3),
            more=lambda: [_images(1), _images(3), _images(2)],
        )
        for name in ("mobilenet_v2", "resnet18", "vit_b_16", "swin_t")
    ),
    Case(
        "minilm_length",
        _minilm,
        lambda: _sentences(2, 24, _WORDS),
        dynamic_shapes=_length(2, 4, 64),
        more=lambda: [_sentences(2, 4, _WORDS), _sentences(2, 64, _WORDS)],
        from_library=True,
    ),
    Case(
        "llama_length",
        _llama,
        lambda: _tokens(16),
        dynamic_shapes=_length(1, 2, 48),
        more=lambda: [_tokens(2), _tokens(48)],
        from_library=True,
    ),
    Case(
        "llama_with_cache_length",
        lambda: Decoder(dim=256),
        lambda: _fed(0, 5),
        dynamic_shapes=lambda: tuple(
            {axis: torch.export.Dim("tokens", min=1, max=8)} for axis in (1, 0)
        ),
        more=lambda: [_fed(5, 1), _fed(6, 1), _fed(7, 8)],
        stateful=True,
    ),
]

_QUANTIZED = [
    Case(
        "mobilenet_v2_int8",
        _quantized(_vision("mobilenet_v2"), 1, 3, 224, 224, is_per_channel=True),
        _picture(224),
        from_library=True,
    ),
    Case(
        "linear_dynamic_int8",
        _quantized(
            lambda: nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)),
            8,
            256,
            is_per_channel=True,
            is_dynamic=True,
        ),
        lambda: (torch.randn(8, 256),),
        from_library=True,
    ),
]

_FLOATS = _STILL + _DYNAMIC
_REAL = [
    *(Delegated(case, "f32") for case in _FLOATS),
    *(Delegated(halved(case), "f16") for case in _FLOATS),
    *(Delegated(case, "int8") for case in _QUANTIZED),
]
REAL: dict[str, Delegated] = {d.case.name: d for d in _REAL}
