"""The decoder for a model of transformers: of fused operators if its parts fit them, else one with
caches of transformers, else one without caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.export import ExportedProgram

from executorch_py.extension.llm.export.hf_attention import UnsupportedDecoder
from executorch_py.extension.llm.export.hf_decoder import Decoder, capture
from executorch_py.extension.llm.export.hf_layers import AllExperts
from executorch_py.extension.llm.export.hf_mixed_decoder import (
    MixedDecoder,
    WholeContextDecoder,
    check_calls,
)
from executorch_py.extension.llm.export.hf_parts import STATE, Parts, first_line, layer_numbers

_SLOWER = "its own code over a cache of all positions in f32, slower"


def choose_decoder(
    model: Any,
    parts: Parts,
    capacity: int,
    *,
    prefill: int | None = None,
    cache: str = "f32",
    all_logits: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Any, ExportedProgram]:
    """A decoder and its graph. `say` is called with a line for each part that does not fit.

    UnsupportedDecoder, which names the part, if there is none with the model's own logits.
    """
    for line in experts_lines(model):
        say(line)
    if parts.fit:
        fused = Decoder(
            model,
            capacity,
            prefill=prefill,
            cache=cache,
            all_logits=all_logits,
            layers=parts.layers,
        )
        return fused, capture(fused)
    failures = []
    if parts.kept:
        try:
            mixed = MixedDecoder(
                model, parts, capacity, prefill=prefill, cache=cache, all_logits=all_logits
            )
            check_calls(mixed)
            found = mixed, capture(mixed)
        except ValueError as error:
            if not isinstance(error, UnsupportedDecoder):
                raise
            failures.append(str(error))
        except Exception as error:
            failures.append(f"with a cache: {first_line(error)}")
        else:
            for line in parts.lines():
                say(f"{line}: {_cost(line)}")
            return found
    try:
        whole = WholeContextDecoder(model, capacity, all_logits=all_logits)
        found_whole = whole, capture(whole)
    except Exception as error:
        failures.append(f"without a cache: {first_line(error)}")
        raise UnsupportedDecoder("; ".join([*parts.lines(), *failures])) from error
    reasons = "; ".join([*parts.lines(), *failures])
    say(f"{reasons}: all tokens are read again in each call, slower")
    return found_whole


def _cost(line: str) -> str:
    if line.endswith(STATE):
        return "one token in a call, slower prompts"
    return _SLOWER


def experts_lines(model: Any) -> list[str]:
    """The layers whose experts are all computed for each token."""
    found: dict[tuple[str, int], list[int]] = {}
    for path, module in model.named_modules():
        if isinstance(module, AllExperts):
            numbers = [int(part) for part in path.split(".") if part.isdigit()]
            found.setdefault((module.class_name, module.n_experts), []).extend(numbers[:1])
    return [
        f"experts of {layer_numbers(layers)} ({name}): all {n} are computed for each token, slower"
        for (name, n), layers in found.items()
    ]
