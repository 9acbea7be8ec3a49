"""The loss of accuracy by quantization on real data, with programs delegated to XNNPACK.

Two networks trained on scikit-learn's digits: percent of held-out digits recognized. MiniLM on
pairs of sentences: the mean cosine of its vectors to the float model's, and the share of sentences
whose nearest neighbour is the same. Variants: float, static int8, dynamic int8, 4-bit weights in
groups of 32 (if a layer's columns allow it), quantization-aware training; for MiniLM also 4-bit
weights rounded by GPTQ, and quantized embeddings (float otherwise).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import subjects  # noqa: F401 adds the models' folder to the path
import torch
from models import digits, sentences, transformer_models
from peers import report

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    get_weight_only_quantization_config,
    prepare_pt2e,
    prepare_qat_pt2e,
)

BATCH = torch.export.Dim("batch", min=1, max=1024)
LENGTH = torch.export.Dim("length", min=2, max=128)
WAYS: dict[str, Callable[[], Any]] = {
    "int8_static": lambda: get_symmetric_quantization_config(is_per_channel=True),
    "int8_dynamic": lambda: get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True),
    "4_bit_groups": lambda: get_groupwise_quantization_config(4, 32),
}


BY_DATA = {  # bits of the word embedding; small embeddings have 8, or all are float
    "4_bit_by_data": None,
    "4_bit_by_data_words_8": 8,
    "4_bit_by_data_words_4": 4,
}


def lowered(program: torch.export.ExportedProgram) -> Any:
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()


def converted(module: Any, quantizer: XNNPACKQuantizer, data: list[Any]) -> Any:
    prepared = prepare_pt2e(module, quantizer)
    calibrate(prepared, data, progress=False)
    return convert_pt2e(prepared)


def by_one(config: Any) -> XNNPACKQuantizer:
    return XNNPACKQuantizer().set_global(config)


# ---- digits


def export_digits(model: Any) -> torch.export.ExportedProgram:
    images = digits.data()[0][:4]
    return torch.export.export(model, (images,), dynamic_shapes=({0: BATCH},))


def run_digits(name: str) -> None:
    model = digits.trained(name)
    programs = {"float": lowered(export_digits(model))}
    for way, config in WAYS.items():
        made = converted(export_digits(model).module(), by_one(config()), digits.calibration())
        programs[way] = lowered(export_digits(made))
    config = get_symmetric_quantization_config(is_per_channel=True, is_qat=True)
    in_training = export_digits(copy.deepcopy(model).train()).module()
    prepared = prepare_qat_pt2e(in_training, XNNPACKQuantizer().set_global(config))
    digits.learn(prepared, 2, 5e-4)
    programs["int8_trained"] = lowered(export_digits(convert_pt2e(prepared.eval())))
    exact = digits.accuracy(programs["float"].run)
    for way, program in programs.items():
        percent, bar = digits.accuracy(program.run), {"int8_static": 0.5, "int8_trained": 0.2}
        report(
            f"digits, {name}, {way}",
            percent=percent,
            kib=len(program.buffer) / 1024,
            **({"lost": exact - percent, "bar": bar[way]} if way in bar else {}),
        )


# ---- sentences


def export_sentences(model: Any, example: Any) -> torch.export.ExportedProgram:
    dims = ({1: LENGTH}, {1: LENGTH})
    return torch.export.export(model, example, dynamic_shapes=dims)


def with_sums_float() -> XNNPACKQuantizer:
    """int8 except for a few outliers: sums and the norms after them stay float, as do the last
    layers of blocks, which compute the outliers."""
    dynamic = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    quantizer = by_one(get_symmetric_quantization_config(is_per_channel=True))
    for i in range(6):
        quantizer.set_module_name(f"model.encoder.layer.{i}.output.dense", dynamic)
    quantizer.set_operator_type(torch.ops.aten.add.Tensor, None)
    return quantizer.set_module_type(torch.nn.LayerNorm, None)


def by_data(bits_of_words: int | None) -> XNNPACKQuantizer:
    quantizer = by_one(get_groupwise_quantization_config(4, 32, fit="data"))
    if bits_of_words is not None:
        quantizer.set_module_type(torch.nn.Embedding, get_weight_only_quantization_config(8))
    if bits_of_words == 4:
        groups = get_weight_only_quantization_config(4, 32)
        quantizer.set_module_name("model.embeddings.word_embeddings", groups)
    return quantizer


def run_sentences() -> None:
    model = transformer_models.minilm()
    encode = sentences.tokenizer(transformer_models.minilm_folder())
    given = [encode(sentence) for sentence in sentences.SENTENCES]
    others = [encode(sentence) for sentence in sentences.statements()]
    programs = {"float": lowered(export_sentences(model, given[0]))}
    ways = {way: (by_one(config()), others[::4]) for way, config in WAYS.items()}
    ways["int8_static_sums_float"] = (with_sums_float(), others[::4])
    ways |= {way: (by_data(bits), others) for way, bits in BY_DATA.items()}
    for way, (quantizer, data) in ways.items():
        made = converted(export_sentences(model, given[0]).module(), quantizer, data)
        programs[way] = lowered(export_sentences(made, given[0]))
    exact = torch.cat([programs["float"].run(*tokens) for tokens in given])
    for way, program in programs.items():
        vectors = torch.cat([program.run(*tokens) for tokens in given])
        cosines = torch.nn.functional.cosine_similarity(vectors, exact)
        report(
            f"sentences, MiniLM, {way}",
            cosine=float(cosines.mean()),
            least=float(cosines.min()),
            same_neighbour=float(
                (sentences.neighbours(vectors) == sentences.neighbours(exact)).float().mean()
            ),
            mb=len(program.buffer) / 2**20,
            **({"bar": 0.99} if way in BY_DATA else {}),
        )


def main() -> None:
    warnings.simplefilter("ignore")
    for name in digits.NETWORKS:
        run_digits(name)
    run_sentences()


if __name__ == "__main__":
    main()
