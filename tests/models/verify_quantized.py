"""Table of `verify` on quantized networks with random weights: rules, deviations and sensitivities.

    python tests/models/verify_quantized.py [--lowering xnnpack] [WORD …]

Runs the networks whose names contain a word, else all. Networks of packages that are not installed
(timm) are named and left out. Weights are random: the table is about the arithmetic of the files.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.amplifying_networks import (
    LOWERINGS,
    NETWORKS,
    Chaos,
    Network,
    Recurrent,
    Several,
    attention,
    lowered,
    quantized,
    randn,
)

from executorch_py.quantizer import (
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    get_weight_only_quantization_config,
)
from executorch_py.testing import ParityError
from models.vision import build, torchvision_models

TORCHVISION = {
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "mobilenet_v3_large": 64,
    "resnet18": 64,
    "resnet50": 64,
    "squeezenet1_1": 64,
    "shufflenet_v2_x0_5": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "regnet_y_400mf": 64,
    "regnet_x_400mf": 64,
    "mnasnet0_5": 64,
    "swin_t": 64,
    "convnext_tiny": 64,
    "googlenet": 64,
    "vgg11": 64,
    "resnext50_32x4d": 64,
}
TIMM = {
    "levit_128s": 224,
    "visformer_tiny": 224,
    "tiny_vit_5m_224": 224,
    "deit_tiny_patch16_224": 224,
    "mobilenetv4_conv_small": 96,
    "edgenext_xx_small": 96,
    "ghostnet_050": 96,
    "fbnetc_100": 96,
    "hardcorenas_a": 96,
    "repvgg_a0": 96,
    "mobileone_s0": 96,
    "poolformer_s12": 96,
    "resmlp_12_224": 224,
    "pit_ti_224": 224,
    "xcit_nano_12_p16_224": 224,
    "efficientformer_l1": 224,
    "mobilevit_xxs": 96,
    "lcnet_050": 96,
    "semnasnet_075": 96,
    "rexnet_100": 96,
    "tf_efficientnet_lite0": 96,
    "efficientvit_b0": 96,
    "fastvit_t8": 96,
}


HAND_WRITTEN: dict[str, Network] = {
    "gru": (Recurrent, (randn(2, 16, 12),)),
    "gru, 2 layers": (lambda: Recurrent(nn.GRU, 2), (randn(2, 24, 12),)),
    "lstm": (lambda: Recurrent(nn.LSTM), (randn(2, 16, 12),)),
    "rnn": (lambda: Recurrent(nn.RNN), (randn(2, 16, 12),)),
    "attention": (lambda: attention(6), (randn(1, 16, 32),)),
    "several outputs": (Several, (randn(8, 32),)),
    "deep": NETWORKS["deep"],
    "chaos": (lambda: Chaos(30), (randn(4, 32),)),
}


def transformer(name: str) -> nn.Module:
    import transformers as t

    small = {"vocab_size": 200, "num_hidden_layers": 4, "hidden_size": 64}
    common = {**small, "num_attention_heads": 4, "intermediate_size": 128}
    models: dict[str, Callable[[], Any]] = {
        "bert": lambda: t.BertModel(t.BertConfig(**common)),
        "roberta": lambda: t.RobertaModel(t.RobertaConfig(**common)),
        "distilbert": lambda: t.DistilBertModel(
            t.DistilBertConfig(vocab_size=200, n_layers=4, dim=64, n_heads=4, hidden_dim=128)
        ),
        "albert": lambda: t.AlbertModel(t.AlbertConfig(**common, embedding_size=32)),
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**common, num_key_value_heads=2)),
        "gpt2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=200, n_embd=64, n_layer=4, n_head=4)
        ),
    }
    return Plain(models[name]())


class Plain(nn.Module):
    """The first output of a transformer, without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        model.config.use_cache = False  # type: ignore[union-attr]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(input_ids=ids, return_dict=False)[0]
        return found


TRANSFORMERS = ("bert", "roberta", "distilbert", "albert", "llama", "gpt2")


def from_timm(name: str) -> nn.Module:
    import timm

    torch.manual_seed(0)
    model: nn.Module = timm.create_model(name, pretrained=False)
    return model


def networks() -> Iterator[tuple[str, Network]]:
    """Names, builders and inputs."""
    yield from HAND_WRITTEN.items()
    ids = torch.randint(0, 200, (1, 12), generator=torch.Generator().manual_seed(0))
    for name in TRANSFORMERS:
        yield name, (lambda n=name: transformer(n), (ids,))
    torchvision_models()
    for name, size in TORCHVISION.items():
        yield name, (lambda n=name: build(n), (image(size),))
    yield "vit", (lambda: build("vit_b_16", image_size=32), (image(32),))
    for name, size in TIMM.items():
        yield name, (lambda n=name: from_timm(n), (image(size),))


def image(size: int) -> torch.Tensor:
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0))


SCHEMES: dict[str, Callable[[], Any]] = {
    "int8": lambda: get_symmetric_quantization_config(is_per_channel=True),
    "dynamic": lambda: get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True),
    "4 bits": lambda: get_groupwise_quantization_config(4, 32),
    "weights": lambda: get_weight_only_quantization_config(8),
}


def verdict(program: Any, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> str:
    try:
        return "ok      " + "\n".join(map(str, program.verify(model, *inputs).comparisons))
    except ParityError as error:
        return f"DIFFERS {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--lowering", choices=LOWERINGS, action="append")
    parser.add_argument("--scheme", choices=SCHEMES, action="append")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, network in networks():
        if given.words and not any(word in name for word in given.words):
            continue
        for scheme in given.scheme or SCHEMES:
            try:
                model = quantized(network, SCHEMES[scheme]())
            except Exception as error:
                print(f"{name}, {scheme}: not made: {str(error).splitlines()[0][:200]}", flush=True)
                continue
            for lowering in given.lowering or LOWERINGS:
                began = time.perf_counter()
                program = lowered(model, network[1], lowering)
                middle = time.perf_counter()
                said = verdict(program, model, network[1])
                spent = f"{middle - began:.0f}+{time.perf_counter() - middle:.0f} s"
                print(f"{name}, {scheme}, {lowering} ({spent}): {said}", flush=True)


if __name__ == "__main__":
    main()
