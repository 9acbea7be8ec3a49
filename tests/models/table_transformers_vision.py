"""Architectures of the transformers library for pictures and videos, of two or so narrow layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from models.table_entry import Architecture, every, floats, several
from models.table_transformers import model_of, rows
from models.transformer_models import SIZES

STAGES = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4]}
IMAGE = ("pixel_values",)
PIXELS = floats(1, 3, 32, 32)
PATCHES = {**SIZES, "image_size": 32, "patch_size": 8}


def picture(family: str, head: str = "Model", **sizes: Any) -> Callable[[], nn.Module]:
    return model_of(f"{family}{head}", f"{family}Config", sizes, IMAGE)


def detector(family: str, **sizes: Any) -> Callable[[], nn.Module]:
    """Class scores and boxes of a detector with a convolutional backbone."""
    backbone = {
        "model_type": "resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16, 16, 32],
        "depths": [1, 1, 1, 1],
        "layer_type": "basic",
        "out_features": ["stage4"],
    }
    settings = {
        "backbone_config": backbone,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "num_queries": 6,
        **sizes,
    }
    return model_of(
        f"{family}ForObjectDetection",
        f"{family}Config",
        settings,
        IMAGE,
        pick=lambda found: [found.logits, found.pred_boxes],
    )


VISION: dict[str, Callable[[], nn.Module]] = {
    "beit": picture("Beit", **PATCHES),
    "bit": picture("Bit", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=4),
    "convnext v1": picture("ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "convnext v2": picture("ConvNextV2", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "cvt": picture("Cvt", embed_dim=[8, 16, 32], num_heads=[1, 2, 4], depth=[1, 2, 3]),
    "data2vec vision": picture("Data2VecVision", **PATCHES),
    "deit": picture("DeiT", **PATCHES),
    "dinov3 vit": picture("DINOv3ViT", **PATCHES),
    "focalnet": picture("FocalNet", image_size=32, embed_dim=16, depths=[1, 1]),
    "hiera": picture(
        "Hiera",
        image_size=[32, 32],
        embed_dim=16,
        depths=[1, 1],
        num_heads=[1, 2],
        query_stride=[2, 2],
        masked_unit_size=[4, 4],
        patch_stride=[4, 4],
        num_query_pool=1,
    ),
    "levit": picture(
        "Levit",
        image_size=64,
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    "mobilenet v1": picture("MobileNetV1", depth_multiplier=0.25, image_size=64),
    "mobilevit": picture(
        "MobileViT",
        image_size=32,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 48],
        num_attention_heads=4,
    ),
    "mobilevit v2": picture("MobileViTV2", image_size=32, width_multiplier=0.25),
    "poolformer": picture("PoolFormer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "pvt": picture(
        "Pvt",
        image_size=32,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    "pvt v2": picture(
        "PvtV2",
        image_size=32,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    "regnet": picture(
        "RegNet",
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        groups_width=8,
    ),
    "resnet": picture(
        "ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="bottleneck"
    ),
    "swiftformer": picture("SwiftFormer", depths=[1, 1, 1, 1], embed_dims=[8, 16, 24, 32]),
    "swin": picture("Swin", image_size=32, patch_size=4, window_size=4, **STAGES),
    "swin v2": picture("Swinv2", image_size=32, patch_size=4, window_size=4, **STAGES),
    "vit msn": picture("ViTMSN", **PATCHES),
}
DENSE: dict[str, Callable[[], nn.Module]] = {
    "depth anything": model_of(
        "DepthAnythingForDepthEstimation",
        "DepthAnythingConfig",
        {
            "backbone_config": {
                "model_type": "dinov2",
                **PATCHES,
                "out_indices": [1, 2],
                "reshape_hidden_states": False,
                "apply_layernorm": True,
            },
            "patch_size": 8,
            "reassemble_hidden_size": 32,
            "neck_hidden_sizes": [8, 16],
            "reassemble_factors": [2, 1],
            "fusion_hidden_size": 8,
            "head_hidden_size": 8,
        },
        IMAGE,
    ),
    "dpt": model_of(
        "DPTForDepthEstimation",
        "DPTConfig",
        {
            **PATCHES,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 8,
            "is_hybrid": False,
        },
        IMAGE,
    ),
    "glpn": model_of(
        "GLPNForDepthEstimation",
        "GLPNConfig",
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 8,
        },
        IMAGE,
    ),
    "mobilevit segmentation": model_of(
        "MobileViTForSemanticSegmentation",
        "MobileViTConfig",
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 48],
            "num_attention_heads": 4,
            "aspp_out_channels": 16,
        },
        IMAGE,
    ),
    "swin 2 super-resolution": picture(
        "Swin2SR",
        "ForImageSuperResolution",
        image_size=16,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
        num_channels=3,
    ),
    "upernet": model_of(
        "UperNetForSemanticSegmentation",
        "UperNetConfig",
        {
            "backbone_config": {
                "model_type": "convnext",
                "hidden_sizes": [8, 16, 24, 32],
                "depths": [1, 1, 1, 1],
                "out_features": ["stage1", "stage2", "stage3", "stage4"],
            },
            "hidden_size": 16,
            "use_auxiliary_head": False,
            "num_labels": 4,
        },
        IMAGE,
    ),
    "maskformer": model_of(
        "MaskFormerForInstanceSegmentation",
        "MaskFormerConfig",
        {
            "backbone_config": {
                "model_type": "swin",
                "image_size": 64,
                "patch_size": 4,
                "window_size": 4,
                "embed_dim": 16,
                "depths": [1, 1, 1, 1],
                "num_heads": [1, 2, 2, 4],
                "out_features": ["stage1", "stage2", "stage3", "stage4"],
            },
            "decoder_config": {
                "model_type": "detr",
                "d_model": 32,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 32,
                "decoder_ffn_dim": 32,
                "num_queries": 6,
            },
            "fpn_feature_size": 32,
            "mask_feature_size": 32,
            "num_queries": 6,
        },
        IMAGE,
    ),
}
DETECTION: dict[str, Callable[[], nn.Module]] = {
    "conditional detr": detector("ConditionalDetr"),
    "deformable detr": detector(
        "DeformableDetr", num_feature_levels=1, encoder_n_points=2, decoder_n_points=2
    ),
    "detr": detector("Detr"),
    "rt-detr": detector(
        "RTDetr",
        backbone_config={
            "model_type": "rt_detr_resnet",
            "embedding_size": 8,
            "hidden_sizes": [8, 16, 16, 32],
            "depths": [1, 1, 1, 1],
            "layer_type": "basic",
            "out_features": ["stage2", "stage3", "stage4"],
        },
        encoder_in_channels=[16, 16, 32],
        encoder_hidden_dim=32,
        feat_strides=[8, 16, 32],
        decoder_in_channels=[32, 32, 32],
        anchor_image_size=None,
    ),
    "yolos": detector("Yolos", **SIZES, image_size=[32, 32], patch_size=8, num_detection_tokens=6),
}


def row(name: str, kind: str, make: Callable[[], nn.Module], inputs: Any) -> Architecture:
    return Architecture(name, "transformers", kind, make, inputs)


POINTS = (
    row(
        "superpoint",
        "keypoints",
        model_of(
            "SuperPointForKeypointDetection",
            "SuperPointConfig",
            {
                "encoder_hidden_sizes": [8, 8, 16, 16],
                "decoder_hidden_size": 16,
                "keypoint_decoder_dim": 65,
                "descriptor_decoder_dim": 16,
            },
            IMAGE,
            pick=every,
        ),
        floats(1, 3, 32, 32),
    ),
    row(
        "sam, vision part",
        "segmentation",
        model_of(
            "SamVisionModel",
            "SamVisionConfig",
            {
                **SIZES,
                "image_size": 64,
                "patch_size": 8,
                "window_size": 4,
                "global_attn_indexes": [1],
                "output_channels": 16,
                "mlp_dim": 64,
                "num_pos_feats": 8,
            },
            IMAGE,
        ),
        floats(1, 3, 64, 64),
    ),
)
VIDEO = (
    row(
        "timesformer",
        "video",
        model_of("TimesformerModel", "TimesformerConfig", {**PATCHES, "num_frames": 2}, IMAGE),
        floats(1, 2, 3, 32, 32),
    ),
    row(
        "videomae",
        "video",
        model_of("VideoMAEModel", "VideoMAEConfig", {**PATCHES, "num_frames": 4}, IMAGE),
        floats(1, 4, 3, 32, 32),
    ),
    row(
        "vivit",
        "video",
        model_of(
            "VivitModel",
            "VivitConfig",
            {**SIZES, "image_size": 32, "num_frames": 4, "tubelet_size": [2, 8, 8]},
            IMAGE,
        ),
        floats(1, 4, 3, 32, 32),
    ),
)

# A noise orders the patches of ViT-MAE; without one the model draws it.
MASKED = model_of(
    "ViTMAEModel", "ViTMAEConfig", {**PATCHES, "mask_ratio": 0.0}, ("pixel_values", "noise")
)
LARGER = {"levit", "mobilenet v1", "mobilevit v2"}
ARCHITECTURES = (
    *rows("vision", {k: v for k, v in VISION.items() if k not in LARGER}, PIXELS),
    *rows("vision", {k: v for k, v in VISION.items() if k in LARGER}, floats(1, 3, 64, 64)),
    *rows("vision", {"vit mae": MASKED}, several(PIXELS, floats(1, 16))),
    *rows("segmentation and depth", DENSE, floats(1, 3, 64, 64)),
    *rows("detection", DETECTION, floats(1, 3, 64, 64)),
    *VIDEO,
    *POINTS,
)
