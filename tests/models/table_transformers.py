"""Architectures of the transformers library, with configurations of two or so narrow layers.

Text: encoders, decoders, encoder-decoders and state-space models. `table_transformers_vision.py`
has pictures and videos, `table_transformers_media.py` sound and several media at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from models.table_entry import Architecture, Outputs, floats, integers, several
from models.transformer_models import DECODER, SUBJECTS, TEXT

KINDS = {
    "mamba": "state-space",
    "rwkv": "state-space",
    "vit": "vision",
    "dinov2": "vision",
    "segformer": "segmentation",
    "clip": "vision-language, vision part",
    "wav2vec2": "audio",
}
WORDS = integers(1, 8)
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def model_of(
    name: str,
    config: str,
    sizes: dict[str, Any],
    names: tuple[str, ...] = ("input_ids",),
    options: dict[str, Any] | None = None,
    pick: Callable[[Any], Any] | None = None,
) -> Callable[[], nn.Module]:
    """Builder of a model by the names of its class and of its configuration's class."""

    def make() -> nn.Module:
        import transformers

        model = getattr(transformers, name)(getattr(transformers, config)(**sizes))
        return Outputs(model, names, options, pick)

    return make


def encoder(family: str, **sizes: Any) -> Callable[[], nn.Module]:
    return model_of(f"{family}Model", f"{family}Config", {**TEXT, **sizes})


def decoder(family: str, **sizes: Any) -> Callable[[], nn.Module]:
    settings = {**DECODER, "pad_token_id": 0, **sizes}
    settings = {key: value for key, value in settings.items() if value is not None}
    return model_of(
        f"{family}ForCausalLM", f"{family}Config", settings, options={"use_cache": False}
    )


def pair(
    name: str, config: str, sizes: dict[str, Any], source: str = "input_ids", **options: Any
) -> Callable[[], nn.Module]:
    """An encoder-decoder, called with the tokens of both sides."""
    return model_of(
        name, config, sizes, (source, "decoder_input_ids"), {"use_cache": False, **options}
    )


BART = {
    "vocab_size": 100,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
T5 = {
    "vocab_size": 100,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
GPT = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
MIXER = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2}
FUNNEL = {
    "vocab_size": 100,
    "block_sizes": [1, 1],
    "d_model": 32,
    "n_head": 4,
    "d_head": 8,
    "d_inner": 64,
    "num_decoder_layers": 1,
}
XLNET = {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}
SPARSE = {"attention_type": "original_full", "max_position_embeddings": 64}
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}

ENCODERS: dict[str, Callable[[], nn.Module]] = {
    "bert-generation": model_of("BertGenerationEncoder", "BertGenerationConfig", TEXT),
    "big bird": encoder("BigBird", **SPARSE),
    "canine": encoder("Canine", num_hash_buckets=64, downsampling_rate=2, upsampling_kernel_size=2),
    "convbert": encoder("ConvBert", embedding_size=16),
    "data2vec text": encoder("Data2VecText"),
    "deberta v1": encoder("Deberta", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "electra": encoder("Electra", embedding_size=16),
    "ernie": encoder("Ernie"),
    "esm": encoder("Esm", pad_token_id=1, mask_token_id=2, position_embedding_type="rotary"),
    "fnet": encoder("FNet"),
    "funnel": model_of("FunnelModel", "FunnelConfig", FUNNEL),
    "i-bert": encoder("IBert"),
    "longformer": encoder("Longformer", attention_window=8),
    "megatron-bert": encoder("MegatronBert"),
    "mobilebert": encoder(
        "MobileBert", embedding_size=16, intra_bottleneck_size=16, num_feedforward_networks=1
    ),
    "modernbert": encoder("ModernBert", pad_token_id=0, local_attention=8),
    "mpnet": encoder("MPNet"),
    "nystromformer": encoder("Nystromformer", segment_means_seq_len=8, num_landmarks=4),
    "perceiver": model_of(
        "PerceiverModel",
        "PerceiverConfig",
        {
            "num_latents": 8,
            "d_latents": 32,
            "d_model": 24,
            "num_blocks": 1,
            "num_self_attends_per_block": 2,
        },
        ("inputs",),
    ),
    "reformer": model_of(
        "ReformerModel",
        "ReformerConfig",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_attention_heads": 2,
            "attention_head_size": 16,
            "feed_forward_size": 64,
            "attn_layers": ["local", "lsh"],
            "axial_pos_embds": False,
            "local_attn_chunk_length": 4,
            "lsh_attn_chunk_length": 4,
            "num_buckets": 2,
            "is_decoder": False,
        },
    ),
    "rembert": encoder("RemBert", input_embedding_size=16, output_embedding_size=16),
    "roberta": encoder("Roberta"),
    "roformer": encoder("RoFormer", embedding_size=32),
    "splinter": encoder("Splinter"),
    "squeezebert": encoder("SqueezeBert", embedding_size=32),
    "tapas": encoder("Tapas"),
    "xlm": model_of(
        "XLMModel", "XLMConfig", {"vocab_size": 100, "emb_dim": 32, "n_layers": 2, "n_heads": 4}
    ),
    "xlnet": model_of("XLNetModel", "XLNetConfig", XLNET),
    "x-mod": encoder("Xmod", languages=["en"], default_language="en"),
    "yoso": encoder("Yoso", use_expectation=True),
}
DECODERS: dict[str, Callable[[], nn.Module]] = {
    "arcee": decoder("Arcee"),
    "biogpt": decoder("BioGpt", num_key_value_heads=None),
    "bloom": decoder("Bloom", n_layer=2, n_head=4, num_key_value_heads=None),
    "codegen": decoder("CodeGen", **GPT, n_ctx=64, rotary_dim=4, num_key_value_heads=None),
    "cohere": decoder("Cohere"),
    "ctrl": model_of(
        "CTRLLMHeadModel", "CTRLConfig", {**GPT, "dff": 64}, options={"use_cache": False}
    ),
    "deepseek v3": decoder(
        "DeepseekV3",
        **LATENT,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        n_shared_experts=1,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
    ),
    "exaone 4": decoder("Exaone4", sliding_window=8),
    "falcon": decoder("Falcon", num_key_value_heads=None),
    "gemma 2": decoder("Gemma2", head_dim=8, sliding_window=4),
    "gemma 3 text": model_of(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**DECODER, "head_dim": 8, "sliding_window": 4},
        options={"use_cache": False},
    ),
    "glm": decoder("Glm", head_dim=8),
    "gpt bigcode": model_of(
        "GPTBigCodeForCausalLM", "GPTBigCodeConfig", GPT, options={"use_cache": False}
    ),
    "gpt neo": model_of(
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
            "max_position_embeddings": 64,
        },
        options={"use_cache": False},
    ),
    "gpt neox": decoder("GPTNeoX", num_key_value_heads=None),
    "gpt-j": decoder("GPTJ", **GPT, rotary_dim=4, num_key_value_heads=None),
    "gpt-oss": decoder(
        "GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4
    ),
    "granite": decoder("Granite"),
    "granite moe": decoder("GraniteMoe", num_local_experts=4, num_experts_per_tok=2),
    "helium": decoder("Helium", head_dim=8),
    "jetmoe": decoder("JetMoe", num_local_experts=4, num_experts_per_tok=2, kv_channels=8),
    "mistral": decoder("Mistral", sliding_window=4),
    "mixtral": decoder("Mixtral", num_local_experts=4, num_experts_per_tok=2),
    "mpt": model_of(
        "MptForCausalLM",
        "MptConfig",
        {"vocab_size": 100, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
        options={"use_cache": False},
    ),
    "nemotron": decoder("Nemotron"),
    "olmo": decoder("Olmo"),
    "olmo 2": decoder("Olmo2"),
    "olmoe": decoder("Olmoe", num_experts=4, num_experts_per_tok=2),
    "openai gpt": model_of("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", GPT),
    "opt": decoder("OPT", ffn_dim=64, word_embed_proj_dim=32, num_key_value_heads=None),
    "persimmon": decoder("Persimmon", num_key_value_heads=None),
    "phi": decoder("Phi"),
    "phi moe": decoder("Phimoe", num_local_experts=4),
    "qwen 2": decoder("Qwen2"),
    "qwen 2 moe": decoder("Qwen2Moe", **MOE, shared_expert_intermediate_size=32),
    "smollm 3": decoder("SmolLM3"),
    "stablelm": decoder("StableLm"),
    "starcoder 2": decoder("Starcoder2"),
    "xglm": decoder(
        "XGLM", d_model=32, num_layers=2, attention_heads=4, ffn_dim=64, num_key_value_heads=None
    ),
}
STATE_SPACE: dict[str, Callable[[], nn.Module]] = {
    "bamba": decoder(
        "Bamba",
        attn_layer_indices=[1],
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=8,
        mamba_chunk_size=8,
    ),
    "falcon h1": decoder(
        "FalconH1",
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_ssm=64,
        mamba_d_state=8,
        mamba_chunk_size=8,
    ),
    "falcon mamba": model_of(
        "FalconMambaForCausalLM",
        "FalconMambaConfig",
        {**MIXER, "state_size": 8},
        options={"use_cache": False},
    ),
    "granite moe hybrid": decoder(
        "GraniteMoeHybrid",
        layer_types=["mamba", "attention"],
        num_local_experts=4,
        num_experts_per_tok=2,
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=8,
        mamba_chunk_size=8,
        shared_intermediate_size=32,
    ),
    "jamba": decoder(
        "Jamba",
        use_mamba_kernels=False,
        attn_layer_offset=1,
        attn_layer_period=2,
        expert_layer_offset=1,
        expert_layer_period=2,
        num_experts=2,
        mamba_d_state=8,
    ),
    "lfm 2": decoder("Lfm2", layer_types=["conv", "full_attention"]),
    "mamba 2": model_of(
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {**MIXER, "state_size": 8, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
        options={"use_cache": False},
    ),
    "nemotron h": decoder(
        "NemotronH",
        hybrid_override_pattern="M*",
        head_dim=8,
        mamba_num_heads=4,
        mamba_head_dim=16,
        ssm_state_size=8,
        n_groups=2,
        chunk_size=8,
    ),
    "qwen 3 next": decoder(
        "Qwen3Next",
        **MOE,
        head_dim=8,
        shared_expert_intermediate_size=32,
        layer_types=["linear_attention", "full_attention"],
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    "recurrent gemma": decoder(
        "RecurrentGemma", num_hidden_layers=3, lru_width=32, attention_window_size=8, head_dim=8
    ),
    "xlstm": model_of(
        "xLSTMForCausalLM",
        "xLSTMConfig",
        {**MIXER, "embedding_dim": 32, "num_heads": 2, "num_blocks": 2, "chunk_size": 8},
        options={"use_cache": False},
    ),
    "zamba": decoder(
        "Zamba",
        num_hidden_layers=4,
        use_mamba_kernels=False,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        attention_hidden_size=64,
        attention_head_dim=16,
        n_mamba_heads=2,
        mamba_d_state=8,
    ),
}
PAIRS: dict[str, Callable[[], nn.Module]] = {
    "bart": pair("BartModel", "BartConfig", BART),
    "bigbird-pegasus": pair(
        "BigBirdPegasusModel", "BigBirdPegasusConfig", {**BART, "attention_type": "original_full"}
    ),
    "blenderbot": pair("BlenderbotModel", "BlenderbotConfig", BART),
    "led": pair(
        "LEDModel",
        "LEDConfig",
        {
            **BART,
            "attention_window": 4,
            "max_encoder_position_embeddings": 64,
            "max_decoder_position_embeddings": 64,
        },
    ),
    "longt5": pair("LongT5Model", "LongT5Config", {**T5, "local_radius": 3}),
    "m2m 100": pair("M2M100Model", "M2M100Config", BART),
    "marian": pair("MarianModel", "MarianConfig", {**BART, "decoder_start_token_id": 0}),
    "mbart": pair("MBartModel", "MBartConfig", BART),
    "pegasus": pair("PegasusModel", "PegasusConfig", BART),
    "prophetnet": pair(
        "ProphetNetModel",
        "ProphetNetConfig",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": 64,
        },
    ),
    "switch transformer": pair(
        "SwitchTransformersModel",
        "SwitchTransformersConfig",
        {**T5, "num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    ),
    "t5, both sides": pair("T5Model", "T5Config", T5),
    "umt5": pair("UMT5Model", "UMT5Config", T5),
}


def rows(kind: str, makers: dict[str, Callable[[], nn.Module]], inputs: Any) -> list[Architecture]:
    return [Architecture(name, "transformers", kind, make, inputs) for name, make in makers.items()]


def subjects() -> list[Architecture]:
    """The models of the tests."""
    return [
        Architecture(name, "transformers", KINDS.get(name, "text"), subject.build, subject.inputs)
        for name, subject in SUBJECTS.items()
    ]


ARCHITECTURES = (
    *subjects(),
    *rows("text", {k: v for k, v in ENCODERS.items() if k != "perceiver"}, WORDS),
    *rows("several media", {"perceiver": ENCODERS["perceiver"]}, floats(1, 12, 24)),
    *rows("text", DECODERS, WORDS),
    *rows("state-space", STATE_SPACE, WORDS),
    *rows("text", PAIRS, several(WORDS, integers(1, 5))),
)
