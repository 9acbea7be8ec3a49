"""Architectures of torchvision and torchaudio, and those of timm.

Images are as small as the architecture allows. Detectors are in `table_detectors.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from models.table_entry import Architecture, Inputs, Outputs, floats, image, several
from models.vision import torchvision_models

CLASSIFIERS = {
    "alexnet": 64,
    "convnext_tiny": 32,
    "densenet121": 32,
    "efficientnet_b0": 32,
    "efficientnet_v2_s": 32,
    "googlenet": 64,
    "inception_v3": 96,
    "maxvit_t": 224,
    "mnasnet0_5": 32,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "mobilenet_v3_large": 64,
    "regnet_x_400mf": 32,
    "regnet_y_400mf": 32,
    "resnet18": 64,
    "resnet50": 64,
    "resnext50_32x4d": 32,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "vgg11_bn": 32,
    "wide_resnet50_2": 32,
}
# Names of timm, with the picture's size and options that make the model small.
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "beit_base_patch16_224": (32, {"img_size": 32, "depth": 2, "embed_dim": 48, "num_heads": 4}),
    "botnet26t_256": (256, {}),
    "cait_xxs24_224": (32, {"img_size": 32, "depth": 2}),
    "coat_lite_tiny": (64, {"img_size": 64}),
    "coatnet_nano_rw_224": (64, {"img_size": 64}),
    "convit_tiny": (32, {"img_size": 32, "depth": 4, "local_up_to_layer": 2}),
    "crossvit_tiny_240": (240, {"depth": ((1, 1, 0), (1, 1, 0), (1, 1, 0))}),
    "cspdarknet53": (64, {}),
    "davit_tiny": (64, {"depths": (1, 1, 1, 1)}),
    "deit_tiny_patch16_224": (64, {"img_size": 64, "depth": 3}),
    "dla34": (64, {}),
    "dpn48b": (64, {}),
    "edgenext_xx_small": (64, {}),
    "efficientformer_l1": (224, {}),
    "efficientnet_lite0": (64, {}),
    "efficientvit_b0": (64, {}),
    "eva02_tiny_patch14_224": (56, {"img_size": 56, "depth": 2}),
    "fastvit_t8": (64, {}),
    "fbnetc_100": (64, {}),
    "focalnet_tiny_srf": (64, {}),
    "ghostnet_050": (64, {}),
    "ghostnetv2_100": (64, {}),
    "hardcorenas_a": (64, {}),
    "hgnet_tiny": (64, {}),
    "hrnet_w18_small": (64, {}),
    "inception_next_tiny": (64, {"depths": (1, 1, 1, 1)}),
    "lcnet_050": (64, {}),
    "levit_192": (224, {}),
    "mambaout_femto": (64, {"depths": (1, 1, 1, 1)}),
    "mixer_s16_224": (64, {"img_size": 64}),
    "mixnet_s": (64, {}),
    "mobilenetv4_conv_small": (64, {}),
    "mobileone_s0": (64, {}),
    "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),
    "mvitv2_tiny": (64, {"img_size": 64}),
    "nest_tiny": (64, {"img_size": 64}),
    "nfnet_f0": (64, {}),
    "pit_ti_224": (64, {"img_size": 64}),
    "poolformer_s12": (64, {}),
    "pvt_v2_b0": (64, {}),
    "repghostnet_050": (64, {}),
    "repvgg_a0": (64, {}),
    "repvit_m0_9": (64, {}),
    "resmlp_12_224": (64, {"img_size": 64}),
    "resnest14d": (64, {}),
    "rexnet_100": (64, {}),
    "seresnet18": (64, {}),
    "skresnet18": (64, {}),
    "starnet_s1": (64, {}),
    "swinv2_cr_tiny_ns_224": (64, {"img_size": 64, "depths": (1, 1, 1, 1), "window_size": 2}),
    "tiny_vit_5m_224": (224, {}),
    "tresnet_m": (64, {}),
    "twins_svt_small": (64, {"img_size": 64, "depths": (1, 1, 2, 1)}),
    "visformer_tiny": (64, {"img_size": 64}),
    "vit_relpos_small_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "vitamin_small_224": (64, {"img_size": 64}),
    "volo_d1_224": (64, {"img_size": 64}),
    "xception41": (64, {}),
    "xcit_nano_12_p16_224": (64, {"img_size": 64, "depth": 3}),
}


def classifier(name: str, **options: Any) -> nn.Module:
    if name in ("googlenet", "inception_v3"):
        options |= {"init_weights": False, "aux_logits": False}
    model: nn.Module = getattr(torchvision_models(), name)(weights=None, **options)
    return model


def segmenter(name: str, **options: Any) -> nn.Module:
    made = getattr(torchvision_models().segmentation, name)
    return Outputs(made(weights=None, weights_backbone=None, num_classes=4, **options))


def video(name: str, **options: Any) -> nn.Module:
    model: nn.Module = getattr(torchvision_models().video, name)(weights=None, **options)
    return model


def flow() -> nn.Module:
    made = torchvision_models().optical_flow.raft_small(weights=None)
    return Outputs(made, options={"num_flow_updates": 2}, pick=lambda found: found[-1])


def from_timm(name: str, options: dict[str, Any]) -> nn.Module:
    torchvision_models()  # timm imports torchvision, whose operators must be declared first
    import timm

    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=16, **options)
    return model


def torchaudio_models() -> ModuleType:
    """torchaudio's definitions without the package's `__init__`, which loads operators for CUDA."""
    if "torchaudio" not in sys.modules:
        package = ModuleType("torchaudio")
        folder = Path(sys.prefix) / "audio"
        package.__path__ = [str(folder / "torchaudio")]
        sys.modules["torchaudio"] = package
    import torchaudio.models

    found: ModuleType = torchaudio.models
    return found


def audio(make: Callable[[ModuleType], nn.Module], **options: Any) -> Callable[[], nn.Module]:
    return lambda: Outputs(make(torchaudio_models()), **options)


def lengths(*values: int) -> Callable[[], Inputs]:
    return lambda: (torch.tensor(values),)


AUDIO = {
    "torchaudio Conformer": (
        audio(lambda m: m.Conformer(16, 4, 32, 2, 7)),
        several(floats(2, 20, 16), lengths(20, 14)),
    ),
    "torchaudio Emformer": (
        audio(lambda m: m.Emformer(16, 4, 32, 2, segment_length=4, right_context_length=1)),
        several(floats(2, 17, 16), lengths(16, 16)),
    ),
    "torchaudio DeepSpeech": (audio(lambda m: m.DeepSpeech(16, 32, 8)), floats(1, 1, 20, 16)),
    "torchaudio Wav2Letter": (
        audio(lambda m: m.Wav2Letter(8, "mfcc", 13)),
        floats(1, 13, 40),
    ),
    "torchaudio ConvTasNet": (
        audio(lambda m: m.ConvTasNet(2, 16, 16, 3, 16, 32, 3, 1)),
        floats(1, 1, 400),
    ),
    "torchaudio WaveRNN": (
        audio(lambda m: m.WaveRNN([2, 2, 3], 16, 12, 2, 16, 16, 5, 8, 16, 4)),
        several(floats(1, 1, 12 * 6), floats(1, 1, 8, 10)),
    ),
}


def torchvision_rows() -> list[Architecture]:
    def row(name: str, kind: str, make: Callable[[], nn.Module], inputs: Any) -> Architecture:
        return Architecture(name, "torchvision", kind, make, inputs)

    rows = [
        row(name, "vision", lambda n=name: classifier(n), image(size))
        for name, size in CLASSIFIERS.items()
    ]
    rows.append(row("vit_b_16", "vision", lambda: classifier("vit_b_16", image_size=32), image(32)))
    for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
        rows.append(row(name, "segmentation", lambda n=name: segmenter(n), image(64)))
    clip = floats(1, 3, 4, 32, 32)
    rows.append(row("r3d_18", "video", lambda: video("r3d_18"), clip))
    rows.append(row("mc3_18", "video", lambda: video("mc3_18"), clip))
    rows.append(row("swin3d_t", "video", lambda: video("swin3d_t"), floats(1, 3, 4, 64, 64)))
    rows.append(
        row("raft_small", "optical flow", flow, several(image(128), floats(1, 3, 128, 128)))
    )
    return rows


ARCHITECTURES = (
    *torchvision_rows(),
    *(
        Architecture(name, "timm", "vision", lambda n=name, o=options: from_timm(n, o), image(size))
        for name, (size, options) in TIMM.items()
    ),
    *(
        Architecture(name, "torchaudio", "audio", make, inputs)
        for name, (make, inputs) in AUDIO.items()
    ),
)
