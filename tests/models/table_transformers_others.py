"""Other architectures of the transformers library: sound, series, and pictures with queries.

Vocoders, forecasters, detectors in two stages, masks by queries and by points.
"""

from __future__ import annotations

from typing import Any

import torch

from models.table_entry import Architecture, Inputs, floats, integers, several
from models.table_transformers import model_of
from models.table_transformers_media import SOUND, TEXT_PART, speech
from models.table_transformers_vision import IMAGE, PATCHES, PIXELS, detector, picture, row
from models.transformer_models import PICTURE, SIZES, TEXT

WORDS = integers(1, 8)
LARGE = floats(1, 3, 64, 64)
NO_CACHE = {"use_cache": False}
RESNET = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 16, 32],
    "depths": [1, 1, 1, 1],
}
SWIN = {
    "model_type": "swin",
    "image_size": 64,
    "patch_size": 4,
    "window_size": 4,
    "embed_dim": 8,
    "depths": [1, 1, 1, 1],
    "num_heads": [1, 2, 2, 4],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

AUDIO = (
    row(
        "hifi-gan",
        "audio",
        model_of(
            "SpeechT5HifiGan",
            "SpeechT5HifiGanConfig",
            {
                "model_in_dim": 8,
                "upsample_initial_channel": 16,
                "upsample_rates": [4, 2],
                "upsample_kernel_sizes": [8, 4],
                "resblock_kernel_sizes": [3, 5],
                "resblock_dilation_sizes": [[1, 3], [1, 3]],
            },
            ("spectrogram",),
        ),
        floats(1, 10, 8),
    ),
    row(
        "parakeet",
        "audio",
        model_of(
            "ParakeetForCTC",
            "ParakeetCTCConfig",
            {
                "vocab_size": 30,
                "pad_token_id": 29,
                "encoder_config": {
                    **SIZES,
                    "num_mel_bins": 16,
                    "subsampling_conv_channels": 8,
                    "subsampling_factor": 4,
                    "conv_kernel_size": 5,
                    "max_position_embeddings": 64,
                },
            },
            ("input_features",),
        ),
        floats(1, 40, 16),
    ),
    row(
        "sew-d",
        "audio",
        speech(
            "SEWD",
            squeeze_factor=2,
            conv_dim=(16,) * 13,
            position_buckets=8,
            max_position_embeddings=32,
        ),
        floats(1, 3200),
    ),
    row(
        "speecht 5",
        "audio",
        model_of(
            "SpeechT5ForTextToSpeech",
            "SpeechT5Config",
            {
                **SOUND,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 32,
                "decoder_ffn_dim": 32,
                "num_mel_bins": 8,
                "speech_decoder_prenet_units": 16,
                "speech_decoder_postnet_units": 16,
                "speaker_embedding_dim": 8,
                "encoder_max_relative_position": 8,
                "speech_decoder_prenet_dropout": 0.0,
            },
            ("input_ids", "decoder_input_values", "speaker_embeddings"),
            NO_CACHE,
            pick=lambda found: found.spectrogram,
        ),
        several(integers(1, 8, below=30), floats(1, 6, 8), floats(1, 8)),
    ),
)
STEPS = several(
    floats(1, 15),
    floats(1, 15, 2),
    lambda: (torch.ones(1, 15),),
    floats(1, 4),
    floats(1, 4, 2),
)


def forecaster(family: str, name: str, **sizes: Any) -> Architecture:
    """A network that reads 15 steps and writes 4, with two covariates of each step."""
    settings = {
        "prediction_length": 4,
        "context_length": 12,
        "lags_sequence": [1, 2, 3],
        "num_time_features": 2,
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "scaling": "mean",
        **sizes,
    }
    names = (
        "past_values",
        "past_time_features",
        "past_observed_mask",
        "future_values",
        "future_time_features",
    )
    make = model_of(f"{family}Model", f"{family}Config", settings, names, NO_CACHE)
    return row(name, "time series", make, STEPS)


SERIES = (
    forecaster("TimeSeriesTransformer", "time series transformer"),
    forecaster("Informer", "informer", sampling_factor=2),
)
PICTURES = (
    row(
        "deformable detr, two stages",
        "detection",
        detector(
            "DeformableDetr",
            num_feature_levels=2,
            encoder_n_points=2,
            decoder_n_points=2,
            two_stage=True,
            two_stage_num_proposals=6,
            with_box_refine=True,
            backbone_config={**RESNET, "out_features": ["stage3", "stage4"]},
        ),
        LARGE,
    ),
    row(
        "mask2former",
        "segmentation",
        model_of(
            "Mask2FormerForUniversalSegmentation",
            "Mask2FormerConfig",
            {
                "backbone_config": SWIN,
                "feature_size": 32,
                "mask_feature_size": 32,
                "hidden_dim": 32,
                "encoder_feedforward_dim": 16,
                "encoder_layers": 1,
                "decoder_layers": 2,
                "num_attention_heads": 2,
                "dim_feedforward": 16,
                "num_queries": 5,
            },
            IMAGE,
            pick=lambda found: [found.class_queries_logits, found.masks_queries_logits],
        ),
        LARGE,
    ),
    row(
        "zoedepth",
        "segmentation and depth",
        model_of(
            "ZoeDepthForDepthEstimation",
            "ZoeDepthConfig",
            {
                "backbone_config": {
                    "model_type": "beit",
                    **SIZES,
                    "num_hidden_layers": 4,
                    "image_size": 32,
                    "patch_size": 8,
                    "out_indices": [1, 2, 3, 4],
                    "reshape_hidden_states": False,
                    "use_relative_position_bias": True,
                },
                "reassemble_factors": [4, 2, 1, 0.5],
                "neck_hidden_sizes": [8, 8, 16, 16],
                "fusion_hidden_size": 8,
                "bottleneck_features": 8,
                "num_relative_features": 8,
                "num_attractors": [4, 2, 1, 1],
                "bin_embedding_dim": 8,
                "bin_configurations": [
                    {"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}
                ],
            },
            IMAGE,
        ),
        PIXELS,
    ),
    row(
        "vitdet",
        "detection",
        picture(
            "VitDet",
            **PATCHES,
            pretrain_image_size=32,
            window_block_indices=[0],
            window_size=3,
            residual_block_indices=[1],
            use_relative_position_embeddings=True,
        ),
        PIXELS,
    ),
    row(
        "vitmatte",
        "segmentation",
        model_of(
            "VitMatteForImageMatting",
            "VitMatteConfig",
            {
                "backbone_config": {
                    "model_type": "vitdet",
                    **SIZES,
                    "patch_size": 16,
                    "image_size": 64,
                    "pretrain_image_size": 64,
                    "num_channels": 4,
                    "out_features": ["stage2"],
                },
                "hidden_size": 32,
                "convstream_hidden_sizes": [8, 8, 16],
                "fusion_hidden_sizes": [16, 16, 8, 8],
            },
            IMAGE,
        ),
        floats(1, 4, 64, 64),
    ),
    row(
        "groupvit, vision part",
        "vision-language",
        model_of(
            "GroupViTVisionModel",
            "GroupViTVisionConfig",
            {
                **PICTURE,
                "depths": [1, 1, 1],
                "num_group_tokens": [8, 4, 0],
                "num_output_groups": [8, 4, 4],
                "num_hidden_layers": 3,
            },
            IMAGE,
        ),
        PIXELS,
    ),
    row(
        "siglip 2, vision part",
        "vision-language",
        model_of(
            "Siglip2VisionModel",
            "Siglip2VisionConfig",
            {**SIZES, "num_patches": 16, "patch_size": 8},
            ("pixel_values", "pixel_attention_mask", "spatial_shapes"),
        ),
        several(
            floats(1, 16, 192),
            lambda: (torch.ones(1, 16, dtype=torch.int64),),
            lambda: (torch.tensor([[4, 4]]),),
        ),
    ),
    row(
        "q-former",
        "vision-language",
        model_of(
            "Blip2QFormerModel",
            "Blip2QFormerConfig",
            {**TEXT, "encoder_hidden_size": 24, "cross_attention_frequency": 2},
            ("query_embeds", "encoder_hidden_states"),
        ),
        several(floats(1, 4, 32), floats(1, 9, 24)),
    ),
    row(
        "vjepa 2",
        "video",
        model_of(
            "VJEPA2Model",
            "VJEPA2Config",
            {
                **SIZES,
                "crop_size": 32,
                "patch_size": 8,
                "frames_per_clip": 4,
                "tubelet_size": 2,
                "pred_hidden_size": 16,
                "pred_num_attention_heads": 2,
                "pred_num_hidden_layers": 1,
                "pred_num_mask_tokens": 2,
            },
            ("pixel_values_videos",),
            {"skip_predictor": True},
        ),
        floats(1, 4, 3, 32, 32),
    ),
    row(
        "x-clip",
        "vision-language",
        model_of(
            "XCLIPModel",
            "XCLIPConfig",
            {
                "text_config": {**TEXT_PART, "eos_token_id": 98, "pad_token_id": 0},
                "vision_config": {
                    **PICTURE,
                    "num_frames": 2,
                    "mit_hidden_size": 16,
                    "mit_intermediate_size": 32,
                    "mit_num_attention_heads": 2,
                },
                "projection_dim": 16,
                "prompt_num_attention_heads": 2,
            },
            ("input_ids", "pixel_values"),
        ),
        several(WORDS, floats(1, 2, 3, 32, 32)),
    ),
)


def points() -> Inputs:
    """Two points of a picture, which prompt its segmentation."""
    return (torch.tensor([[[[20.0, 30.0], [40.0, 10.0]]]]),)


PROMPTED = (
    row(
        "sam",
        "segmentation",
        model_of(
            "SamModel",
            "SamConfig",
            {
                "vision_config": {
                    **SIZES,
                    "image_size": 64,
                    "patch_size": 8,
                    "window_size": 4,
                    "global_attn_indexes": [1],
                    "output_channels": 16,
                    "mlp_dim": 64,
                    "num_pos_feats": 8,
                },
                "prompt_encoder_config": {
                    "hidden_size": 16,
                    "image_size": 64,
                    "patch_size": 8,
                    "mask_input_channels": 4,
                },
                "mask_decoder_config": {
                    "hidden_size": 16,
                    "mlp_dim": 32,
                    "num_hidden_layers": 1,
                    "num_attention_heads": 2,
                    "iou_head_hidden_dim": 16,
                },
            },
            ("pixel_values", "input_points"),
            pick=lambda found: [found.iou_scores, found.pred_masks],
        ),
        several(LARGE, points),
    ),
)
ARCHITECTURES = (*AUDIO, *SERIES, *PICTURES, *PROMPTED)
