"""Architectures of the transformers library for text and documents, with less common operators.

Attention by differences, in blocks and in linear time; experts; words with places on a page.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from models.table_entry import every, floats, integers, several
from models.table_transformers import BART, DECODER, LATENT, decoder, encoder, model_of, pair, rows
from models.table_transformers_media import boxes
from models.table_transformers_vision import IMAGE, PIXELS, row
from models.transformer_models import TEXT

WORDS = integers(1, 8)
NO_CACHE = {"use_cache": False}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

TEXTS: dict[str, Callable[[], nn.Module]] = {
    "cpm ant": model_of(
        "CpmAntModel",
        "CpmAntConfig",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_attention_heads": 4,
            "dim_head": 8,
            "dim_ff": 64,
            "num_hidden_layers": 2,
            "prompt_length": 4,
            "position_bias_num_buckets": 16,
            "position_bias_max_distance": 32,
        },
        options=NO_CACHE,
    ),
    "dbrx": model_of(
        "DbrxForCausalLM",
        "DbrxConfig",
        {
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 64,
            "vocab_size": 100,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4},
            "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        },
        options=NO_CACHE,
    ),
    "deepseek v2": decoder(
        "DeepseekV2",
        **LATENT,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        n_shared_experts=1,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        topk_method="group_limited_greedy",
    ),
    "diffllama": decoder("DiffLlama"),
    "gemma 3n text": model_of(
        "Gemma3nForCausalLM",
        "Gemma3nTextConfig",
        {
            **DECODER,
            "head_dim": 8,
            "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention"],
            "num_kv_shared_layers": 0,
            "laurel_rank": 4,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": 100,
            "activation_sparsity_pattern": [0.9, 0.0],
            "pad_token_id": 0,
        },
        options=NO_CACHE,
    ),
    "llama 4 text": model_of(
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {
            **DECODER,
            "head_dim": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 64,
            "attention_chunk_size": 4,
            "pad_token_id": 0,
            "no_rope_layers": [1, 0],
        },
        options=NO_CACHE,
    ),
    "minimax": decoder(
        "MiniMax",
        **EXPERTS,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        block_size=4,
    ),
    "nanochat": decoder("NanoChat"),
    "roc bert": encoder(
        "RoCBert",
        pronunciation_vocab_size=20,
        shape_vocab_size=20,
        pronunciation_embed_dim=8,
        shape_embed_dim=8,
    ),
}
LONGER = (
    row(
        "big bird, sparse",
        "text",
        encoder(
            "BigBird",
            attention_type="block_sparse",
            block_size=4,
            num_random_blocks=1,
            max_position_embeddings=64,
        ),
        integers(1, 48),
    ),
    row("mra", "text", encoder("Mra", block_per_row=2), integers(1, 64)),
    row(
        "pegasus-x",
        "text",
        pair("PegasusXModel", "PegasusXConfig", {**BART, "num_global_tokens": 4, "block_size": 4}),
        several(integers(1, 16), integers(1, 5)),
    ),
    row(
        "zamba 2",
        "state-space",
        decoder(
            "Zamba2",
            num_hidden_layers=4,
            use_mamba_kernels=False,
            layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
            n_mamba_heads=4,
            mamba_d_state=8,
            chunk_size=4,
            num_key_value_heads=4,
        ),
        WORDS,
    ),
    row(
        "luke",
        "text",
        model_of(
            "LukeModel",
            "LukeConfig",
            {**TEXT, "entity_vocab_size": 20, "entity_emb_size": 16},
            ("input_ids", "entity_ids", "entity_position_ids"),
            pick=lambda found: [found.last_hidden_state, found.entity_last_hidden_state],
        ),
        several(
            WORDS,
            integers(1, 2, below=20),
            lambda: (torch.tensor([[[1, 2, -1], [3, 4, 5]]]),),
        ),
    ),
    row(
        "markuplm",
        "documents",
        model_of(
            "MarkupLMModel",
            "MarkupLMConfig",
            {
                **TEXT,
                "max_xpath_tag_unit_embeddings": 16,
                "max_xpath_subs_unit_embeddings": 16,
                "tag_pad_id": 0,
                "subs_pad_id": 0,
                "xpath_unit_hidden_size": 8,
                "max_depth": 4,
            },
            ("input_ids", "xpath_tags_seq", "xpath_subs_seq"),
        ),
        several(WORDS, integers(1, 8, 4, below=14), integers(1, 8, 4, below=14)),
    ),
    row(
        "lilt",
        "documents",
        model_of(
            "LiltModel",
            "LiltConfig",
            {**TEXT, "hidden_size": 48, "channel_shrink_ratio": 4},
            ("input_ids", "bbox"),
        ),
        several(WORDS, boxes),
    ),
    row(
        "layoutlm v3",
        "documents",
        model_of(
            "LayoutLMv3Model",
            "LayoutLMv3Config",
            {
                **TEXT,
                "coordinate_size": 4,
                "shape_size": 8,
                "input_size": 32,
                "patch_size": 8,
                "max_2d_position_embeddings": 100,
            },
            ("input_ids", "bbox", "pixel_values"),
        ),
        several(WORDS, boxes, PIXELS),
    ),
    row(
        "mgp-str",
        "documents",
        model_of(
            "MgpstrForSceneTextRecognition",
            "MgpstrConfig",
            {
                "image_size": [16, 32],
                "patch_size": 4,
                "max_token_length": 5,
                "num_character_labels": 12,
                "num_bpe_labels": 20,
                "num_wordpiece_labels": 20,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
            },
            IMAGE,
            pick=every,
        ),
        floats(1, 3, 16, 32),
    ),
)
ARCHITECTURES = (*rows("text", TEXTS, WORDS), *LONGER)
