"""Architectures of the transformers library for sound, time series, and several media at once.

Models of several media are whole, or the parts that a device runs one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from models.table_entry import Inputs, every, floats, integers, several
from models.table_transformers import DECODER, model_of, rows
from models.table_transformers_vision import IMAGE, PATCHES, PIXELS, picture, row
from models.transformer_models import PICTURE, SIZES, TEXT

WORDS = integers(1, 8)
SOUND = {
    **SIZES,
    "vocab_size": 32,
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
SPEECH = ("input_values",)
WAVE = floats(1, 3200)
TEXT_PART = {**SIZES, "vocab_size": 100, "max_position_embeddings": 32}


def speech(family: str, **sizes: Any) -> Callable[[], nn.Module]:
    return model_of(f"{family}Model", f"{family}Config", {**SOUND, **sizes}, SPEECH)


def two_towers(family: str, **sizes: Any) -> Callable[[], nn.Module]:
    """A picture compared with a text."""
    settings = {
        "text_config": {**TEXT_PART, "eos_token_id": 98, "pad_token_id": 0},
        "vision_config": PICTURE,
        "projection_dim": 16,
        **sizes,
    }
    return model_of(f"{family}Model", f"{family}Config", settings, ("input_ids", "pixel_values"))


LANGUAGE = {**DECODER, "model_type": "llama", "pad_token_id": 0}


def describer(family: str, **sizes: Any) -> Callable[[], nn.Module]:
    """A language model that reads the features of a picture in place of 16 tokens."""
    settings = {
        "vision_config": {"model_type": "clip_vision_model", **PICTURE, "projection_dim": 16},
        "text_config": LANGUAGE,
        "image_token_id": 99,
        "image_token_index": 99,
        "vision_feature_layer": -1,
        **sizes,
    }
    return model_of(
        f"{family}ForConditionalGeneration",
        f"{family}Config",
        settings,
        ("input_ids", "pixel_values"),
        {"use_cache": False},
    )


def described() -> Inputs:
    words = integers(1, 6)()[0]
    tokens = torch.cat([words[:, :2], torch.full((1, 16), 99), words[:, 2:]], 1)
    return tokens, *PIXELS()


def boxes() -> Inputs:
    """Corners of the box around each word: left, top, right, bottom."""
    return (integers(1, 8, 4)()[0].sort(-1).values,)


AUDIO: dict[str, Callable[[], nn.Module]] = {
    "data2vec audio": speech("Data2VecAudio", conv_pos_kernel_size=3),
    "hubert": speech("Hubert"),
    "sew": speech("SEW", squeeze_factor=2, conv_dim=(16,) * 13),
    "unispeech": speech("UniSpeech"),
    "wav2vec2 conformer": speech("Wav2Vec2Conformer", conv_depthwise_kernel_size=7),
    "wavlm": speech("WavLM"),
}


WHISPER = {
    "vocab_size": 100,
    "num_mel_bins": 16,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_source_positions": 20,
    "max_target_positions": 20,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

OTHER_AUDIO = (
    row(
        "audio spectrogram transformer",
        "audio",
        model_of(
            "ASTModel",
            "ASTConfig",
            {
                **SIZES,
                "patch_size": 8,
                "frequency_stride": 8,
                "time_stride": 8,
                "max_length": 32,
                "num_mel_bins": 16,
            },
            SPEECH,
        ),
        floats(1, 32, 16),
    ),
    row(
        "encodec",
        "audio",
        model_of(
            "EncodecModel",
            "EncodecConfig",
            {
                "num_filters": 4,
                "hidden_size": 16,
                "codebook_dim": 16,
                "codebook_size": 32,
                "upsampling_ratios": [4, 2],
                "num_lstm_layers": 1,
                "target_bandwidths": [24.0],
            },
            SPEECH,
            pick=lambda found: found.audio_values,
        ),
        floats(1, 1, 160),
    ),
    row(
        "dac",
        "audio",
        model_of(
            "DacModel",
            "DacConfig",
            {
                "encoder_hidden_size": 8,
                "downsampling_ratios": [2, 4],
                "decoder_hidden_size": 32,
                "n_codebooks": 2,
                "codebook_size": 32,
                "codebook_dim": 4,
            },
            SPEECH,
            pick=lambda found: found.audio_values,
        ),
        floats(1, 1, 160),
    ),
    row(
        "moonshine",
        "audio",
        model_of(
            "MoonshineModel",
            "MoonshineConfig",
            {
                **{
                    "vocab_size": 100,
                    "hidden_size": 32,
                    "intermediate_size": 64,
                    "pad_token_id": 0,
                },
                "encoder_num_hidden_layers": 2,
                "decoder_num_hidden_layers": 2,
                "encoder_num_attention_heads": 4,
                "decoder_num_attention_heads": 4,
            },
            ("input_values", "decoder_input_ids"),
            {"use_cache": False},
        ),
        several(floats(1, 4000), integers(1, 5)),
    ),
    row(
        "speech to text",
        "audio",
        model_of(
            "Speech2TextModel",
            "Speech2TextConfig",
            {
                **WHISPER,
                "input_feat_per_channel": 16,
                "conv_channels": 16,
                "max_source_positions": 60,
            },
            ("input_features", "decoder_input_ids"),
            {"use_cache": False},
        ),
        several(floats(1, 40, 16), integers(1, 5)),
    ),
    row(
        "univnet",
        "audio",
        model_of(
            "UnivNetModel",
            "UnivNetConfig",
            {
                "model_in_channels": 8,
                "model_hidden_channels": 8,
                "num_mel_bins": 8,
                "resblock_kernel_sizes": [3],
                "resblock_stride_sizes": [4],
                "resblock_dilation_sizes": [[1, 3]],
                "kernel_predictor_hidden_channels": 8,
                "kernel_predictor_num_blocks": 1,
            },
            ("input_features", "noise_sequence"),
        ),
        several(floats(1, 10, 8), floats(1, 10, 8)),
    ),
    row(
        "wav2vec2-bert",
        "audio",
        model_of(
            "Wav2Vec2BertModel",
            "Wav2Vec2BertConfig",
            {**SIZES, "feature_projection_input_dim": 16, "conv_depthwise_kernel_size": 7},
            ("input_features",),
        ),
        floats(1, 20, 16),
    ),
    row(
        "whisper",
        "audio",
        model_of(
            "WhisperModel",
            "WhisperConfig",
            WHISPER,
            ("input_features", "decoder_input_ids"),
            {"use_cache": False},
        ),
        several(floats(1, 16, 40), integers(1, 5)),
    ),
)
MEDIA = (
    row(
        "align, text part",
        "vision-language",
        model_of("AlignTextModel", "AlignTextConfig", TEXT),
        WORDS,
    ),
    row("blip, vision part", "vision-language", picture("BlipVision", **PATCHES), PIXELS),
    row("chinese clip", "vision-language", two_towers("ChineseCLIP"), several(WORDS, PIXELS)),
    row("clip, both towers", "vision-language", two_towers("CLIP"), several(WORDS, PIXELS)),
    row(
        "clipseg",
        "vision-language",
        model_of(
            "CLIPSegForImageSegmentation",
            "CLIPSegConfig",
            {
                "text_config": {**TEXT_PART, "eos_token_id": 98, "pad_token_id": 0},
                "vision_config": {**PICTURE, "num_hidden_layers": 3},
                "projection_dim": 16,
                "reduce_dim": 16,
                "extract_layers": [0, 1, 2],
                "decoder_num_attention_heads": 4,
                "decoder_intermediate_size": 32,
            },
            ("input_ids", "pixel_values"),
            pick=lambda found: found.logits,
        ),
        several(WORDS, PIXELS),
    ),
    row(
        "flava",
        "vision-language",
        model_of("FlavaImageModel", "FlavaImageConfig", PATCHES, IMAGE),
        PIXELS,
    ),
    row(
        "git",
        "vision-language",
        model_of(
            "GitForCausalLM",
            "GitConfig",
            {**TEXT, "vision_config": PICTURE},
            ("input_ids", "pixel_values"),
            {"use_cache": False},
        ),
        several(WORDS, PIXELS),
    ),
    row(
        "idefics 3, vision part",
        "vision-language",
        model_of("Idefics3VisionTransformer", "Idefics3VisionConfig", PATCHES, IMAGE),
        PIXELS,
    ),
    row(
        "llava",
        "vision-language",
        describer("Llava", vision_feature_select_strategy="default"),
        described,
    ),
    row("owl-vit", "vision-language", two_towers("OwlViT"), several(WORDS, PIXELS)),
    row(
        "paligemma",
        "vision-language",
        describer(
            "PaliGemma",
            vision_config={
                "model_type": "siglip_vision_model",
                **PICTURE,
                "vision_use_head": False,
            },
            text_config={**DECODER, "model_type": "gemma", "head_dim": 8, "pad_token_id": 0},
            projection_dim=32,
            hidden_size=32,
        ),
        described,
    ),
    row("siglip", "vision-language", two_towers("Siglip"), several(WORDS, PIXELS)),
    row(
        "trocr decoder",
        "vision-language",
        model_of(
            "TrOCRForCausalLM",
            "TrOCRConfig",
            {
                "vocab_size": 100,
                "d_model": 32,
                "decoder_layers": 2,
                "decoder_attention_heads": 4,
                "decoder_ffn_dim": 64,
            },
            options={"use_cache": False},
        ),
        WORDS,
    ),
    row(
        "vilt",
        "vision-language",
        model_of(
            "ViltModel",
            "ViltConfig",
            {**TEXT, "image_size": 32, "patch_size": 8},
            ("input_ids", "pixel_values"),
        ),
        several(WORDS, PIXELS),
    ),
    row(
        "visual bert",
        "vision-language",
        model_of(
            "VisualBertModel",
            "VisualBertConfig",
            {**TEXT, "visual_embedding_dim": 16},
            ("input_ids", "visual_embeds"),
        ),
        several(WORDS, floats(1, 4, 16)),
    ),
    row(
        "lxmert",
        "vision-language",
        model_of(
            "LxmertModel",
            "LxmertConfig",
            {
                "vocab_size": 100,
                "hidden_size": 32,
                "num_attention_heads": 4,
                "intermediate_size": 64,
                "l_layers": 1,
                "x_layers": 1,
                "r_layers": 1,
                "visual_feat_dim": 16,
            },
            ("input_ids", "visual_feats", "visual_pos"),
        ),
        several(WORDS, floats(1, 4, 16), floats(1, 4, 4)),
    ),
    row(
        "layoutlm",
        "documents",
        model_of("LayoutLMModel", "LayoutLMConfig", TEXT, ("input_ids", "bbox")),
        several(WORDS, boxes),
    ),
    row(
        "qwen 2 vl, text part",
        "vision-language",
        model_of(
            "Qwen2VLTextModel",
            "Qwen2VLTextConfig",
            {**DECODER, "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}},
            options={"use_cache": False},
        ),
        WORDS,
    ),
)
SERIES = (
    row(
        "patchtst",
        "time series",
        model_of(
            "PatchTSTModel",
            "PatchTSTConfig",
            {
                "num_input_channels": 2,
                "context_length": 32,
                "patch_length": 8,
                "patch_stride": 8,
                "d_model": 16,
                "num_attention_heads": 2,
                "ffn_dim": 32,
                "num_hidden_layers": 2,
            },
            ("past_values",),
        ),
        floats(1, 32, 2),
    ),
    row(
        "patchtsmixer",
        "time series",
        model_of(
            "PatchTSMixerModel",
            "PatchTSMixerConfig",
            {
                "num_input_channels": 2,
                "context_length": 32,
                "patch_length": 8,
                "patch_stride": 8,
                "d_model": 16,
                "num_layers": 2,
            },
            ("past_values",),
        ),
        floats(1, 32, 2),
    ),
    row(
        "decision transformer",
        "control",
        model_of(
            "DecisionTransformerModel",
            "DecisionTransformerConfig",
            {
                "state_dim": 5,
                "act_dim": 3,
                "hidden_size": 32,
                "n_layer": 2,
                "n_head": 4,
                "max_ep_len": 32,
            },
            ("states", "actions", "rewards", "returns_to_go", "timesteps"),
            pick=every,
        ),
        several(
            floats(1, 4, 5),
            floats(1, 4, 3),
            floats(1, 4, 1),
            floats(1, 4, 1),
            integers(1, 4, below=30),
        ),
    ),
)
ARCHITECTURES = (*rows("audio", AUDIO, WAVE), *OTHER_AUDIO, *MEDIA, *SERIES)
