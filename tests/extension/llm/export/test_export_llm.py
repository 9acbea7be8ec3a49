"""Programs of export_llm: logits of eager torch for each cache and target, prompts in pieces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import llama_checkpoints
from support.llama_checkpoints import PARAMS, PROMPT, steps
from support.tolerance import BF16_LAYERS, F32_LAYERS, LAYERS_STEPS, Tolerance, assert_near

from executorch_py.devtools import parse_etrecord
from executorch_py.errors import InvalidArgument
from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.checkpoint import Checkpoint, CheckpointError
from executorch_py.extension.llm.export.config.read_config import ConfigError, read_config
from executorch_py.extension.llm.export.export_llm import capture_llm, export_llm, main
from executorch_py.extension.llm.export.quantize_model import quantize_model
from executorch_py.extension.llm.model import rope
from executorch_py.extension.llm.model.caches import OwnCache, Step
from executorch_py.extension.llm.model.model_args import ModelArgsError, args_of
from executorch_py.extension.llm.model.transformer import Limits, Transformer
from executorch_py.extension.llm.model.weights import load_weights
from executorch_py.extension.llm.session import Session
from executorch_py.runtime import Runtime

SIZES = ["export.max_seq_length=8", "export.max_context_length=24"]
CACHE = ["model.use_kv_cache=true"]
OPERATORS = [*CACHE, "model.use_sdpa_with_kv_cache=true"]
WINDOWS = "model.local_global_attention=[0,3]"
OWN = ["export.target=executorch_py"]
WEIGHTS = [
    "quantization.qmode=8da4w",
    "quantization.group_size=32",
    "quantization.embedding_quantize=4,32",
]
XNNPACK = ["backend.xnnpack.enabled=true"]
CACHES = {
    "tensors": CACHE,
    "operators": OPERATORS,
    "own": [*CACHE, *OWN],
    "extended": [*OPERATORS, *XNNPACK, "backend.xnnpack.extended_ops=true"],
}
QUANTIZED = {
    "XNNPACK": [*OPERATORS, *WEIGHTS, *XNNPACK],
    "own": [*OPERATORS, *WEIGHTS, *OWN],
    "portable": [*CACHE, *WEIGHTS],
    "own, 8-bit table by row": [
        *CACHE,
        *OWN,
        *WEIGHTS[:2],
        "quantization.embedding_quantize=8,0",
    ],
    "4w": [*CACHE, "quantization.qmode=4w", *WEIGHTS[1:]],
    "int8": [*CACHE, "quantization.qmode=int8", *XNNPACK, "backend.xnnpack.extended_ops=true"],
}


def eager(windows: tuple[int, ...] | None = None, **params: Any) -> Transformer:
    """The model in torch, without a cache."""
    model = Transformer(
        args_of({**PARAMS, **params}, "params"), Limits(24, 24, "none", windows=windows)
    )
    return loaded(model)


def loaded(model: Transformer) -> Transformer:
    found = llama_checkpoints.tensors()
    readers = {name: (lambda name=name: found[name]) for name in found}
    load_weights(model, Checkpoint(readers, "tensors"))
    return model


def eager_steps(model: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    seen: list[int] = []

    def call(tokens: list[int], position: int) -> torch.Tensor:
        seen[position:] = tokens
        with torch.no_grad():
            result: torch.Tensor = model(torch.tensor([seen]))
        return result

    return list(steps(call))


def exported(folder: Path, *overrides: str) -> ExecutorchProgramManager:
    config = read_config(None, [*llama_checkpoints.write(folder), *SIZES, *overrides])
    return export_llm(config)


def runtime_steps(
    program: ExecutorchProgramManager, pieces: tuple[int, ...] = (len(PROMPT),)
) -> list[torch.Tensor]:
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    return list(
        steps(lambda ids, at: method.execute([torch.tensor([ids]), torch.tensor([at])])[0], pieces)
    )


@pytest.mark.parametrize("name", CACHES)
def test_logits_are_those_of_eager_torch_for_a_prompt_at_once_and_in_pieces(
    name: str, tmp_path: Path
) -> None:
    program = exported(tmp_path, *CACHES[name])
    wanted = eager_steps(eager())
    for pieces in ((6,), (2, 4), (1, 1, 1, 1, 1, 1)):
        assert_near(runtime_steps(program, pieces), wanted, F32_LAYERS)


def test_a_call_has_room_for_all_of_max_seq_length(tmp_path: Path) -> None:
    method = (
        Runtime.get().load_program(exported(tmp_path, *OPERATORS).buffer).load_method("forward")
    )
    ids = torch.arange(8).unsqueeze(0)
    with torch.no_grad():
        wanted = eager()(ids)
    assert_near(method.execute([ids, torch.tensor([0])])[0], wanted, F32_LAYERS)


def test_a_program_without_a_cache_takes_all_tokens(tmp_path: Path) -> None:
    program = exported(tmp_path, "debug.generate_full_logits=true")
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    model = eager()
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        wanted = torch.stack([model(ids[:, : i + 1])[0] for i in range(len(PROMPT))])
    assert_near(method.execute([ids])[0][0], wanted, F32_LAYERS)


def test_static_shapes_take_one_token_at_a_time(tmp_path: Path) -> None:
    program = exported(tmp_path, *OPERATORS, "model.enable_dynamic_shape=false")
    assert_near(runtime_steps(program, (1,) * 6), eager_steps(eager()), F32_LAYERS)


@pytest.mark.parametrize("windows", [[], [WINDOWS]], ids=["all positions", "windows"])
def test_caches_of_int8_have_the_numbers_of_their_module(
    windows: list[str], tmp_path: Path
) -> None:
    int8 = "model.quantize_kv_cache=true"
    program = exported(tmp_path, *OPERATORS, *windows, int8)
    limits = Limits(24, 8, "operators i8", (0, 3) if windows else None)
    model = loaded(Transformer(args_of(PARAMS, "params"), limits))
    with torch.no_grad():
        wanted = list(steps(lambda ids, at: model(torch.tensor([ids]), torch.tensor([at])), (2, 4)))
    assert_near(runtime_steps(program, (2, 4)), wanted, LAYERS_STEPS)
    assert_near(wanted, eager_steps(eager((0, 3) if windows else None)), LAYERS_STEPS)


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_programs_compute_with_the_numbers_of_their_module(
    name: str, tmp_path: Path
) -> None:
    program = exported(tmp_path, *QUANTIZED[name])
    model = eager()
    quantize_model(model, read_config(None, [*SIZES, *QUANTIZED[name]]))
    wanted = eager_steps(model)
    is_dynamic = "8da4w" in " ".join(QUANTIZED[name])
    tolerance: Tolerance = LAYERS_STEPS if is_dynamic else F32_LAYERS
    assert_near(runtime_steps(program), wanted, tolerance)


def test_both_targets_have_the_same_quantized_numbers(tmp_path: Path) -> None:
    ours, theirs = (runtime_steps(exported(tmp_path, *QUANTIZED[n])) for n in ("own", "XNNPACK"))
    assert_near(ours, theirs, F32_LAYERS)


def test_searched_scales_have_a_smaller_error() -> None:
    from executorch_py.extension.llm.export.standard_quantized import WeightKind, quantize_rows

    matrix = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
    errors = []
    for search in (True, False):
        codes, scales = quantize_rows(matrix, WeightKind(4, 32, search))
        values = codes.unflatten(1, (-1, 32)) * scales.unsqueeze(-1)
        errors.append(float((values.flatten(1) - matrix).square().sum()))
    assert errors[0] < 0.97 * errors[1]


@pytest.mark.parametrize("target", [[], OWN], ids=["upstream's", "own"])
def test_layers_with_windows_see_their_window_alone(target: list[str], tmp_path: Path) -> None:
    program = exported(tmp_path, *OPERATORS, *target, WINDOWS)
    wanted = eager_steps(eager(windows=(0, 3)))
    for pieces in ((6,), (2, 4), (5, 1)):
        assert_near(runtime_steps(program, pieces), wanted, F32_LAYERS)


@pytest.mark.parametrize("more", [[], ["model.quantize_kv_cache=true"]], ids=str)
def test_a_sink_is_seen_beside_the_window(more: list[str], tmp_path: Path) -> None:
    sink = ["model.use_attention_sink='2,3'", "export.max_seq_length=4"]
    program = exported(tmp_path, *OPERATORS, *sink, *more)
    model = loaded(Transformer(args_of(PARAMS, "params"), Limits(24, 24, windows=(3, 3), sink=2)))
    wanted = eager_steps(model)
    tolerance = LAYERS_STEPS if more else F32_LAYERS
    for pieces in ((4, 2), (1, 3, 2), (1,) * 6):
        assert_near(runtime_steps(program, pieces), wanted, tolerance)


class CountedInTheCache(OwnCache):
    """Attention of all tokens at once: queries count positions in the sink and the window."""

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        step: Step,
        cos: torch.Tensor | None = None,
        sin: torch.Tensor | None = None,
    ) -> torch.Tensor:
        assert cos is not None and sin is not None
        layer, rows = self.layer, []
        k, v = (x.repeat_interleave(q.shape[2] // layer.heads, 2) for x in (k, v))
        for p in range(q.shape[1]):
            first = max(layer.sink, p - layer.window + 1)
            at = torch.tensor([*range(min(layer.sink, p + 1)), *range(first, p + 1)])
            n = len(at)
            keys = rope.rotated(k[:, at], cos[:n], sin[:n])
            query = rope.rotated(q[:, p : p + 1], cos[n - 1 : n], sin[n - 1 : n])
            scores = (query * keys).sum(-1) * layer.scale
            rows.append((torch.softmax(scores, 1).unsqueeze(-1) * v[:, at]).sum(1, keepdim=True))
        return torch.cat(rows, 1)


@pytest.mark.parametrize("kind", ["f32", "i8"])
@pytest.mark.parametrize("numbers", ["2,3", "1,1", "0,4"])
def test_distances_to_a_sink_end_with_the_own_cache(
    numbers: str, kind: str, tmp_path: Path
) -> None:
    sink, window = map(int, numbers.split(","))
    more = [*CACHE, *OWN, f"model.use_attention_sink='{numbers}'", "export.max_seq_length=4"]
    more.append(f"model.quantize_kv_cache={str(kind == 'i8').lower()}")
    program = exported(tmp_path, *more)
    limits = Limits(24, 24, f"own {kind}", windows=(window,) * 2, sink=sink)
    model = loaded(Transformer(args_of(PARAMS, "params"), limits))
    for block in model.layers:
        block.attention.kv_cache = CountedInTheCache(block.attention.kv_cache.layer, kind)
    wanted = eager_steps(lambda ids: model(ids, torch.tensor([0])))
    tolerance = F32_LAYERS if kind == "f32" else LAYERS_STEPS
    for pieces in ((4, 2), (1, 3, 2), (1,) * 6):
        assert_near(runtime_steps(program, pieces), wanted, tolerance)


def test_a_sink_has_sessions_that_go_back(tmp_path: Path) -> None:
    sink = ["model.use_attention_sink='2,3'", "export.max_seq_length=4"]
    exported(tmp_path, *CACHE, *OWN, *sink).save(str(tmp_path / "model.pte"))
    tokens = [*PROMPT, *range(30, 36)]
    session, again = (Session(tmp_path / "model.pte") for _ in range(2))
    session.prefill(tokens[:6])
    session.rewind(1)  # no position has lost its slot
    session.prefill(tokens[1:])
    with pytest.raises(InvalidArgument, match="rewind: expected 0, or 8 to 12"):
        session.rewind(7)
    session.rewind(8)
    logits = session.prefill(tokens[8:11])
    assert logits.tobytes() == again.prefill(tokens[:11]).tobytes()


def test_a_sink_of_the_own_cache_needs_a_rotation_that_comes_last(tmp_path: Path) -> None:
    llama_checkpoints.write(tmp_path, {**PARAMS, "use_qk_norm": True})
    config = read_config(
        None,
        [
            f"base.params={tmp_path / 'params.json'}",
            *SIZES,
            *CACHE,
            *OWN,
            "model.use_attention_sink='2,3'",
        ],
    )
    with pytest.raises(ConfigError, match="use_attention_sink: expected a model that rotates"):
        export_llm(config)


@pytest.mark.parametrize("more", [[], OWN, [*OWN, *WEIGHTS]], ids=["upstream's", "own", "4 bits"])
def test_a_pruned_vocabulary_keeps_its_ids(more: list[str], tmp_path: Path) -> None:
    inputs = sorted({*PROMPT, 1, 2, 3})
    outputs = list(range(299, 0, -3))
    for name, words in (("input", inputs), ("output", outputs)):
        (tmp_path / f"{name}.json").write_text(json.dumps(dict(enumerate(words))))
    maps = [f"model.{n}_prune_map={tmp_path / n}.json" for n in ("input", "output")]
    program = exported(tmp_path, *OPERATORS, *more, *maps)
    whole = exported(tmp_path, *OPERATORS, *more)
    found, wanted = (
        Runtime.get()
        .load_program(p.buffer)
        .load_method("forward")
        .execute([torch.tensor([PROMPT]), torch.tensor([0])])[0][0]
        for p in (program, whole)
    )
    assert_near(found[outputs], wanted[outputs], F32_LAYERS)
    assert len(found) == 300 and int(found.isneginf().sum()) == 300 - len(outputs)
    assert len(program.buffer) < len(whole.buffer)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"0": 5, "2": 6}, r"expected positions from 0 on, each once, got '\[0, 2\]'"),
        ({"0": 5, "1": 300}, "expected ids that differ, of a vocabulary of 300, got 5 to 300"),
        ([5], "expected a JSON object of positions and ids"),
    ],
)
def test_a_map_that_is_none_is_refused(entries: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(json.dumps(entries))
    with pytest.raises(ModelArgsError, match=message):
        exported(tmp_path, *OPERATORS, f"model.input_prune_map={tmp_path / 'map.json'}")


def test_constant_methods_are_the_sizes_and_the_metadata(tmp_path: Path) -> None:
    metadata = 'base.metadata={"get_bos_id": 1, "get_eos_ids": [2, 3]}'
    program = Runtime.get().load_program(exported(tmp_path, *OPERATORS, WINDOWS, metadata).buffer)
    found = {
        name: program.load_method(name).execute([]) for name in program.method_names - {"forward"}
    }
    assert found == {
        "get_max_seq_len": [8],
        "get_max_context_len": [24],
        "get_n_layers": [2],
        "get_vocab_size": [300],
        "use_kv_cache": [True],
        "use_sdpa_with_kv_cache": [True],
        "enable_dynamic_shape": [True],
        "get_cache_kind": ["f32"],
        "get_cache_windows": [0, 3],
        "get_cache_slots": [24, 10],
        "get_bos_id": [1],
        "get_eos_ids": [2, 3],
    }


def test_a_program_has_sessions(tmp_path: Path) -> None:
    exported(tmp_path, *OPERATORS, WINDOWS).save(str(tmp_path / "model.pte"))
    session = Session(tmp_path / "model.pte")
    tokens = session.generate(PROMPT, max_new_tokens=4)
    session.rewind(7)
    assert session.position == 7
    assert tokens == [int(step.argmax()) for step in eager_steps(eager(windows=(0, 3)))[:4]]


def test_a_tied_table_is_in_the_file_once(tmp_path: Path) -> None:
    tied = {k: t for k, t in llama_checkpoints.tensors().items() if k != "output.weight"}
    sizes = []
    for found in (tied, llama_checkpoints.tensors()):
        places = llama_checkpoints.write(tmp_path)
        torch.save(found, tmp_path / "weights.pth")
        config = read_config(None, [*places, *SIZES, *CACHE, *OWN, *WEIGHTS])
        sizes.append(len(export_llm(config).buffer))
    assert sizes[1] - sizes[0] > 300 * 64 // 2


def test_the_command_writes_a_file_of_the_model_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(
        "base:\n  model_class: llama3_2\nmodel:\n  use_kv_cache: true\n"
    )
    places = [*llama_checkpoints.write(tmp_path), *SIZES, f"+export.output_dir={tmp_path}"]
    assert main(["--config", str(tmp_path / "config.yaml"), *places]) == 0
    assert "saved" in capsys.readouterr().out
    program = Runtime.get().load_program(tmp_path / "llama3_2.pte")
    assert "use_kv_cache" in program.method_names


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model.use_kv_cach=true"]) == 1
    assert "did you mean 'use_kv_cache'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tensors", "operators", "extended"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_halves_are_the_dtype_of_weights_caches_and_logits(
    dtype: str, name: str, tmp_path: Path
) -> None:
    lines = [*llama_checkpoints.write(tmp_path), *SIZES, *CACHES[name]]
    whole = export_llm(read_config(None, lines))
    config = read_config(None, [*lines, f"model.dtype_override={dtype}"])
    program, graph = export_llm(config), capture_llm(config)["forward"].module()
    assert len(program.buffer) < len(whole.buffer) * 0.7
    found = runtime_steps(program, (2, 4))
    half = torch.float16 if dtype == "fp16" else torch.bfloat16
    assert {logits.dtype for logits in found} == {half}
    wanted = steps(lambda ids, at: graph(torch.tensor([ids]), torch.tensor([at])), (2, 4))
    assert_near(found, list(wanted), BF16_LAYERS)


@pytest.mark.parametrize("quantizer", ["xnnpack_dynamic", "xnnpack_dynamic_qc4"])
def test_quantizers_of_graphs_give_the_numbers_of_the_converted_graph(
    quantizer: str, tmp_path: Path
) -> None:
    lines = [*llama_checkpoints.write(tmp_path), *SIZES, *OPERATORS, *XNNPACK]
    whole = export_llm(read_config(None, lines))
    config = read_config(None, [*lines, f"quantization.pt2e_quantize={quantizer}"])
    program, graph = export_llm(config), capture_llm(config)["forward"].module()
    assert len(program.buffer) < len(whole.buffer) * 0.75
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    # The graph has one scale for all rows of activations, XNNPACK one for each.
    for i, token in enumerate(PROMPT):
        inputs = (torch.tensor([[token]]), torch.tensor([i]))
        assert_near(method.execute(inputs)[0], graph(*inputs), LAYERS_STEPS)


def test_the_command_writes_graphs_alone(tmp_path: Path) -> None:
    places = [*llama_checkpoints.write(tmp_path), *SIZES, *CACHE, f"export.output_dir={tmp_path}"]
    assert main([*places, "export.export_only=true", "export.output_name=small.pte"]) == 0
    graph = torch.export.load(tmp_path / "small.pt2").module()
    program = export_llm(read_config(None, places))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    inputs = (torch.tensor([PROMPT[:5]]), torch.tensor([0]))
    assert_near(method.execute(inputs)[0], graph(*inputs), F32_LAYERS)
    assert not (tmp_path / "small.pte").exists()
    with pytest.raises(ConfigError, match=r"export\.export_only: expected false for a program"):
        export_llm(read_config(None, [*places, "export.export_only=true"]))


def test_files_for_tools_are_written_beside_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [*llama_checkpoints.write(tmp_path), *SIZES, *CACHE, f"export.output_dir={tmp_path}"]
    wanted = ["debug.generate_etrecord=true", "debug.profile_memory=true"]
    assert main([*places, *wanted, f"debug.profile_path={tmp_path}/time.html"]) == 0
    assert parse_etrecord(str(tmp_path / "etrecord.bin")).edge_dialect_program is not None
    assert json.loads((tmp_path / "memory_profile.json").read_text())["traceEvents"]
    assert "captured" in (tmp_path / "time.html").read_text()
    assert capsys.readouterr().out.count("saved") == 4


def test_a_file_for_tools_that_cannot_be_written_costs_no_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("etrecord.bin", "time.html"):
        (tmp_path / name).mkdir()
    places = [*llama_checkpoints.write(tmp_path), *SIZES, *CACHE, f"export.output_dir={tmp_path}"]
    wanted = ["debug.generate_etrecord=true", f"debug.profile_path={tmp_path}/time.html"]
    assert main([*places, *wanted, "export.output_name=small"]) == 0
    assert capsys.readouterr().out.count("could not write") == 2
    assert (tmp_path / "small.pte").exists()


def test_a_page_of_times_has_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug.profile_path=/nowhere/time.html"]) == 1
    assert "debug.profile_path: expected a file such as" in capsys.readouterr().err


def test_a_weight_that_is_too_large_for_a_dtype_is_named(tmp_path: Path) -> None:
    lines = llama_checkpoints.write(tmp_path)
    weights = torch.load(tmp_path / "weights.pth")
    weights["layers.1.attention.wk.weight"][3, 5] = 1e5
    torch.save(weights, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match=r"layers\.1\.attention\.wk\.weight"):
        export_llm(read_config(None, [*lines, *SIZES, *CACHE, "model.dtype_override=fp16"]))


def test_keys_without_an_effect_are_reported(tmp_path: Path) -> None:
    lines = [*llama_checkpoints.write(tmp_path), *SIZES, *CACHE]
    said: list[str] = []
    more = ["export.so_library=/lib/ops.so", "model.expand_rope_table=true"]
    export_llm(read_config(None, [*lines, *more]), said.append)
    assert [line.partition(":")[0] for line in said][-2:] == [
        "export.so_library",
        "model.expand_rope_table",
    ]
