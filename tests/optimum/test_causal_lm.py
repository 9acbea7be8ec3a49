"""ExecuTorchModelForCausalLM: greedy tokens of the model, here and on upstream's runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.decoders import build
from support.tolerance import DELEGATED_QUANTIZED, F32_LAYERS, assert_near
from support.upstream_peer import Upstream
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from executorch_py.errors import InvalidArgument, NotFound, NotSupported
from executorch_py.extension.llm.export import export_folder
from executorch_py.extension.llm.session import Session
from executorch_py.optimum import ExecuTorchModelForCausalLM

IDS, LENGTH = [5, 17, 42, 3, 9], 32
UPSTREAM: dict[str, dict[str, Any]] = {
    "delegated, written by index": {},
    "delegated, fused attention": {"attn_implementation": "custom_sdpa"},
    "delegated, fused caches": {"use_custom_kv_cache": True},
    "kernels, fused caches": {"recipe": "portable", "use_custom_kv_cache": True},
    "single tokens": {"use_custom_kv_cache": True, "disable_dynamic_shapes": True},
}
# Options, and how many of 12 prompts have equal logits at least.
QUANTIZED: dict[str, tuple[dict[str, Any], int]] = {
    "both, 4 bits": ({"use_custom_kv_cache": True, "qlinear": "8da4w", "qembedding": "8w"}, 4),
    "both, 8 bits": ({"use_custom_sdpa": True, "qlinear": "8da8w", "qembedding": "4w"}, 4),
    "layers only": ({"use_custom_kv_cache": True, "qlinear": "8da4w"}, 10),
    "tables only": ({"use_custom_kv_cache": True, "qembedding": "8w"}, 12),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a small Llama, and the model."""
    path, model = tmp_path_factory.mktemp("small"), build("Llama", {"eos_token_id": 299})
    model.save_pretrained(path)
    return path, model


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a small model whose layers have windows, and the model."""
    path = tmp_path_factory.mktemp("windows")
    model = build("Mistral", {"sliding_window": 6, "eos_token_id": 299})
    model.save_pretrained(path)
    return path, model


def greedy(model: Any, n: int = 14) -> list[int]:
    ids = torch.tensor([IDS])
    tokens = model.generate(ids, max_new_tokens=n, do_sample=False, eos_token_id=299)
    return list(tokens[0].tolist())


def exported(folder: Path, **options: Any) -> ExecuTorchModelForCausalLM:
    return ExecuTorchModelForCausalLM.from_pretrained(
        folder, export=True, max_seq_len=LENGTH, **options
    )


def test_the_tokens_are_those_of_the_model(folder: tuple[Path, Any], tmp_path: Path) -> None:
    path, model = folder
    found, wanted = exported(path), greedy(model)
    assert found.generate(IDS, echo=True, max_seq_len=len(wanted)) == wanted
    assert found.generate(IDS, max_seq_len=len(wanted)) == wanted[len(IDS) :]
    with torch.no_grad():
        logits = model(torch.tensor([IDS])).logits
    assert_near(found(torch.tensor([IDS])), logits[:, -1], F32_LAYERS)
    single = [found.forward(torch.tensor([[t]]), torch.tensor([i])) for i, t in enumerate(IDS)]
    assert_near(torch.cat(single), logits[0], F32_LAYERS)
    # A prompt at a position after 0 goes on from what was generated before.
    rest = found.generate(wanted[12:13], pos_base=12, max_seq_len=len(wanted))
    assert rest == wanted[13:]

    found.save_pretrained(tmp_path / "out")
    assert {"model.pte", "config.json"} <= {file.name for file in (tmp_path / "out").iterdir()}
    again = ExecuTorchModelForCausalLM.from_pretrained(tmp_path / "out")
    assert again.generate(IDS, echo=True, max_seq_len=len(wanted)) == wanted
    assert again.program.sha256 == found.program.sha256


def test_low_bit_weights_are_those_of_export_folder(folder: tuple[Path, Any]) -> None:
    path, _ = folder
    found = exported(path, qlinear="8da4w", qembedding="4w")
    same = export_folder(path, capacity=LENGTH, group=32, cache="f32", verify=0)
    assert bytes(found.program._program.buffer()) == bytes(same.buffer)
    sizes = [
        exported(path, **options).program._program.nbytes
        for options in (
            {"qlinear": "8da4w", "qlinear_group_size": 64, "qembedding": "8w"},
            {"qlinear": "8da8w"},
            {"qembedding": "4w"},
        )
    ]
    assert sizes == sorted(sizes)


@pytest.mark.interop
@pytest.mark.parametrize("options", UPSTREAM.values(), ids=UPSTREAM)
def test_upstream_generates_the_same_tokens(
    folder: tuple[Path, Any], tmp_path: Path, upstream: Upstream, options: dict[str, Any]
) -> None:
    path, model = folder
    found = exported(path, target="executorch-1.5", **options)
    tokens = found.generate(IDS, echo=True, max_seq_len=19)
    steps = [IDS, *([token] for token in tokens[len(IDS) : -1])]
    if options.get("disable_dynamic_shapes"):
        steps = [[token] for token in tokens[:-1]]
    logits = logits_of_steps(found, steps, tmp_path, upstream)[-14:]
    assert tokens == greedy(model)
    assert [int(row.argmax()) for row in logits] == tokens[-14:]


def logits_of_steps(
    found: ExecuTorchModelForCausalLM, steps: list[list[int]], folder: Path, upstream: Upstream
) -> list[torch.Tensor]:
    """The logits after each step, on upstream's runtime."""
    (folder / "model.pte").write_bytes(found.program._program.buffer())
    inputs, at = [], 0
    for step in steps:
        inputs.append([torch.tensor([step]), torch.arange(at, at + len(step))])
        at += len(step)
    torch.save(inputs, folder / "model.inputs.pt")
    upstream.ask("run_decoder", "model", folder)
    return [out[0, -1] for (out,) in torch.load(folder / "model.pt")]


@pytest.mark.interop
@pytest.mark.parametrize(("options", "least"), QUANTIZED.values(), ids=QUANTIZED)
def test_upstream_computes_the_same_logits_of_quantized_files(
    folder: tuple[Path, Any],
    tmp_path: Path,
    upstream: Upstream,
    options: dict[str, Any],
    least: int,
) -> None:
    found = exported(folder[0], target="executorch-1.5", **options)
    prompts = torch.randint(3, 299, (12, 5), generator=torch.Generator().manual_seed(0))
    (tmp_path / "model.pte").write_bytes(found.program._program.buffer())
    torch.save(
        [[prompt[None], torch.arange(5)] for prompt in prompts], tmp_path / "model.inputs.pt"
    )
    upstream.ask("run_decoder", "model", tmp_path)
    n_near = 0
    for prompt, (out,) in zip(prompts, torch.load(tmp_path / "model.pt"), strict=True):
        session = Session(found.program)
        ours = torch.as_tensor(session.prefill(prompt.tolist()))
        assert_near(out[0, -1], ours, DELEGATED_QUANTIZED)
        n_near += torch.allclose(out[0, -1], ours, *F32_LAYERS)
    # Rows of activations become int8. Those of a table in 8 bits often have elements halfway
    # between two codes, of which the last bit of a norm chooses one: not in all prompts.
    assert n_near >= least


@pytest.mark.interop
@pytest.mark.parametrize(
    "options",
    [{}, {"use_custom_kv_cache": True}, {"use_custom_sdpa": True, "recipe": "portable"}],
    ids=["by index", "fused caches", "fused attention"],
)
def test_windows_on_upstream(
    windows: tuple[Path, Any], tmp_path: Path, upstream: Upstream, options: dict[str, Any]
) -> None:
    path, model = windows
    found = exported(path, target="executorch-1.5", **options)
    tokens = greedy(model)
    assert found.generate(IDS, echo=True, max_seq_len=19) == tokens
    found.session.rewind(3)  # the caches have all positions
    assert found.session.generate(tokens[3:5], 14) == tokens[5:]
    steps = [IDS, *([token] for token in tokens[len(IDS) : -1])]
    logits = logits_of_steps(found, steps, tmp_path, upstream)
    assert [int(row.argmax()) for row in logits] == tokens[-14:]


def tokenizer() -> Any:
    """Single ASCII characters, and names of two letters for the other ids."""
    names = ["<s>", "</s>", "<p>", *(chr(c) for c in range(33, 127)), "Ġ"]
    names += [f"{a}{b}" for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"][: 300 - len(names)]
    made = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return made


class Plain:
    """The interface of a tokenizer of transformers, as far as it is used."""

    def __init__(self) -> None:
        self.inner = tokenizer()

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text).ids)

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))


@pytest.mark.interop
def test_upstreams_runner_writes_the_same_text(
    folder: tuple[Path, Any], tmp_path: Path, upstream: Upstream
) -> None:
    found = exported(folder[0], target="executorch-1.5", use_custom_kv_cache=True)
    found.save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "model.tokenizer.json"))
    (tmp_path / "model.txt").write_text("Once")
    upstream.ask("write_text", "model", tmp_path)
    text = found.text_generation(Plain(), "Once", echo=False, max_seq_len=4 + 12)
    assert (tmp_path / "model.out").read_text() == text
    assert found.text_generation(Plain(), "Once", max_seq_len=16) == f"Once{text}"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "recipe": ({"recipe": "coreml"}, 'recipe: expected "xnnpack" or "portable", got \'coreml\''),
    "task": ({"task": "fill-mask"}, 'task: expected "text-generation", got'),
    "target": ({"target": "executorch-1.4"}, "target: expected"),
    "qembedding": ({"qembedding": "2w"}, 'qembedding: expected None or "4w" or "8w", got'),
    "device": ({"device": "cuda"}, 'device: expected "cpu", got'),
    "attention": ({"attn_implementation": "eager"}, "attn_implementation: expected None or"),
    "static shapes": ({"disable_dynamic_shapes": True}, "disable_dynamic_shapes: expected False"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_options_that_are_not_supported_are_refused(
    folder: tuple[Path, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(NotSupported) as raised:
        ExecuTorchModelForCausalLM.from_pretrained(folder[0], export=True, **options)
    assert words in str(raised.value)


def test_wrong_arguments_are_refused(folder: tuple[Path, Any], tmp_path: Path) -> None:
    model = ExecuTorchModelForCausalLM
    with pytest.raises(NotFound, match="model_id: expected a folder with a model"):
        model.from_pretrained("some/model")
    with pytest.raises(TypeError, match=r"expected options of the names target, .*, got 'qliner'"):
        model.from_pretrained(folder[0], qliner="8da4w")
    with pytest.raises(InvalidArgument, match="max_seq_len: expected 4 or more, got 2"):
        model.from_pretrained(folder[0], max_seq_len=2)
    found = exported(folder[0])
    found.save_pretrained(tmp_path)
    with pytest.raises(InvalidArgument, match=r"expected none, as .*model.pte' exists, got"):
        model.from_pretrained(tmp_path, qlinear="8da4w")
    with pytest.raises(InvalidArgument, match="expected more than the 5 tokens before"):
        found.generate(IDS, max_seq_len=5)
    with pytest.warns(UserWarning, match="max_seq_len: expected at most 32"):
        assert len(found.generate(IDS, echo=True, max_seq_len=99)) <= LENGTH


def test_capped_scores_are_refused_for_upstream(tmp_path: Path) -> None:
    build("Gemma2", {"head_dim": 16}).save_pretrained(tmp_path)
    with pytest.raises(NotSupported, match="layer 0: expected attention without capped scores"):
        exported(tmp_path, target="executorch-1.5")


def test_a_tied_table_has_codes_of_its_own_for_upstream(tmp_path: Path) -> None:
    model = build("Llama", {"tie_word_embeddings": True, "eos_token_id": 299})
    model.save_pretrained(tmp_path)
    options = {"target": "executorch-1.5", "qlinear": "8da8w", "qembedding": "8w"}
    found = exported(tmp_path, **options)
    names = found.program.metadata("forward").operators
    assert "quantized_decomposed::embedding_byte.out" in names
    assert "aten::linear.out" not in names and "aten::mm.out" not in names
    assert json.loads((tmp_path / "config.json").read_text())["tie_word_embeddings"]


def test_models_of_other_tasks_are_refused_by_name() -> None:
    with pytest.raises(ImportError, match="expected ExecuTorchModelForCausalLM, got"):
        from executorch_py.optimum import ExecuTorchModelForMaskedLM  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name"):
        from executorch_py.optimum import Other  # noqa: F401
