"""Short convolutions in a decoder: transformers' LFM2 from the same checkpoints, and states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support import lfm2_checkpoints
from support.lfm2_checkpoints import PARAMS, TYPES
from support.llama_checkpoints import PARAMS as LLAMA_PARAMS
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.model import Transformer
from executorch_py.extension.llm.model.model_args import ModelArgs, args_of
from executorch_py.extension.llm.model.model_classes import args_of_class
from executorch_py.extension.llm.model.transformer import Limits
from executorch_py.extension.llm.model.weights import initialize, load_weights, open_checkpoint

IDS = torch.tensor([[5, 17, 42, 7, 9, 200, 1, 299]])
WHOLE = Limits(16, 16, all_logits=True)


def loaded(path: Path, limits: Limits = WHOLE) -> Transformer:
    model = Transformer(args_of(PARAMS, "params"), limits)
    load_weights(model, open_checkpoint(path))
    return model


def test_logits_are_those_of_transformers_from_either_checkpoint(tmp_path: Path) -> None:
    theirs = lfm2_checkpoints.build()
    theirs.save_pretrained(tmp_path)
    torch.save(lfm2_checkpoints.converted(theirs), tmp_path / "weights.pth")
    with torch.no_grad():
        wanted = theirs(IDS, use_cache=False).logits
        found = [loaded(path)(IDS) for path in (tmp_path, tmp_path / "weights.pth")]
    assert_near(found[0], wanted, F32_LAYERS)
    assert torch.equal(*found)


@pytest.mark.parametrize("cache", ["tensors", "operators"])
def test_a_prompt_in_pieces_has_the_bits_of_the_prompt_at_once(cache: str, tmp_path: Path) -> None:
    lfm2_checkpoints.write(tmp_path)
    model = loaded(tmp_path, Limits(16, 16, cache, all_logits=True))
    with torch.no_grad():
        whole = loaded(tmp_path)(IDS)
        for pieces in ((8,), (1, 7), (1, 1, 6), (2, 3, 1, 2), (1,) * 8):
            # The state of the last call is there when a call at position 0 begins again.
            at, found = 0, []
            for n in pieces:
                found.append(model(IDS[:, at : at + n], torch.tensor([at])))
                at += n
            assert_near(torch.cat(found, 1), whole, F32_LAYERS)


def test_a_state_that_is_no_number_ends_at_position_0(tmp_path: Path) -> None:
    lfm2_checkpoints.write(tmp_path)
    model = loaded(tmp_path, Limits(16, 16, "tensors"))
    with torch.no_grad():
        wanted = model(IDS, torch.tensor([0]))
        for name, buffer in model.named_buffers():
            if name.endswith("conv_state"):
                buffer.fill_(torch.nan)
        assert torch.equal(model(IDS, torch.tensor([0])), wanted)


def test_params_files_may_have_more_types_than_layers() -> None:
    args = args_of({**PARAMS, "layer_types": [*TYPES, "conv"]}, "params")
    assert [args.is_convolution(i) for i in range(4)] == [True, False, False, True]
    assert args.has_convolutions and not args_of(LLAMA_PARAMS, "params").has_convolutions
    assert not args_of({**LLAMA_PARAMS, "layer_types": ["full_attention"] * 2}, "").has_convolutions


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("lfm2_350m", 354),
        ("lfm2_700m", 742),
        ("lfm2_1_2b", 1170),
        ("lfm2_5_350m", 354),
        ("lfm2_5_1_2b", 1170),
    ],
)
def test_model_classes_have_as_many_weights_as_their_model_cards(name: str, millions: int) -> None:
    args: ModelArgs = args_of_class(name)
    model = Transformer(args, Limits(16, 16))
    n = sum(p.numel() for p in model.parameters()) - model.output.weight.numel()  # tied
    assert round(n / 1e6) == millions
    assert [block.conv is None for block in model.layers].count(True) == 6


def test_random_weights_are_numbers() -> None:
    model = Transformer(args_of(PARAMS, "params"), WHOLE)
    initialize(model)
    assert bool(model(IDS).isfinite().all())


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "model.layers.0.conv.in_proj.weight",
            None,
            r"expected tensors \['layers.0.conv.B_proj.weight', .*none of these names",
        ),
        ("model.embedding_norm.weight", None, r"expected tensors \['norm.weight'\], got none"),
        ("model.layers.1.conv.out_proj.weight", 64, r"'layers.1.conv.out_proj.weight'\]: check"),
        ("model.layers.0.conv.in_proj.bias", 192, r"got \['layers.0.conv.B_proj.bias', "),
        (
            "model.layers.0.conv.in_proj.weight",
            191,
            r"'layers.0.conv.x_proj.weight': expected shape \[64, 64\], got \[63, 64\]",
        ),
        (
            "model.layers.0.conv.in_proj.weight",
            193,
            r"'layers.0.conv.x_proj.weight': expected shape \[64, 64\], got \[65, 64\]",
        ),
        (
            "model.layers.3.conv.conv.weight",
            64,
            r"'layers.3.conv.conv.weight': expected shape \[64, 1, 3\], got \[64, 64\]",
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    name: str, rows: int | None, message: str, tmp_path: Path
) -> None:
    tensors = dict(lfm2_checkpoints.build().state_dict())
    tensors.pop("lm_head.weight")
    tensors.pop(name, None)
    if rows is not None:
        tensors[name] = torch.ones(rows) if name.endswith("bias") else torch.ones(rows, 64)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        loaded(tmp_path)
