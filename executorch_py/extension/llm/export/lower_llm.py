"""A Transformer as a graph, and graphs as a program for one of the targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
)
from executorch_py.exir import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.passes import MemoryPlanningPass
from executorch_py.extension.llm.export.config.llm_config import LlmConfig
from executorch_py.extension.llm.export.config.read_config import ConfigError
from executorch_py.extension.llm.export.fuse_decoder import fuse_decoder
from executorch_py.extension.llm.export.graph_quantizer import quantize_graph
from executorch_py.extension.llm.export.supported_keys import OWN_TARGET
from executorch_py.extension.llm.model.transformer import Transformer

_LEAST_LENGTH = 4  # that the traced range of lengths needs


def captured(model: Transformer, config: LlmConfig) -> ExportedProgram:
    """The graph for 1 … max_seq_length tokens, or with static shapes for one, or without caches for
    max_seq_length."""
    longest, dynamic = config.export.max_seq_length, config.model.enable_dynamic_shape
    if dynamic and longest < _LEAST_LENGTH:
        raise ConfigError(
            f"export.max_seq_length: expected {_LEAST_LENGTH} or more, or "
            f"model.enable_dynamic_shape=false, got {longest}"
        )
    cached = config.model.use_kv_cache
    length = 2 if dynamic else 1 if cached else longest
    numbers = [torch.zeros(1, length, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)]
    example = tuple(numbers if cached else numbers[:1])
    tokens = {1: torch.export.Dim("token_dim", max=longest)} if dynamic else None
    shapes = (tokens, None) if cached else (tokens,)

    def capture(module: torch.nn.Module) -> ExportedProgram:
        with torch.no_grad():
            return torch.export.export(module, example, dynamic_shapes=shapes, strict=False)

    exported, chosen = capture(model), config.quantization.pt2e_quantize
    if chosen is not None:
        exported = quantize_graph(exported, chosen, example, capture)
    if config.export.target == OWN_TARGET:
        fuse_decoder(exported.graph_module)
    return exported


def lowered(
    exported: dict[str, ExportedProgram], config: LlmConfig, constants: dict[str, Any]
) -> ExecutorchProgramManager:
    """The program of these methods, for the target that the configuration names."""
    own, records = config.export.target == OWN_TARGET, config.debug.generate_etrecord
    for program in exported.values():
        _name_files(program, config)
    settings = ExecutorchBackendConfig(
        target=config.export.target,
        own_operators=own,
        external_constants=partial(_file_of, config) if _has_files(config) else False,
        memory_planning_pass=MemoryPlanningPass(
            share_mutable_buffers=config.multimethod.share_mutable_buffers
        ),
        emit_mutable_buffer_names=config.multimethod.share_mutable_buffers,
    )
    if own:
        whole = to_edge(exported, constant_methods=constants, generate_etrecord=records)
        return whole.to_executorch(settings)
    partitioners: list[XnnpackPartitioner] = []
    if config.backend.xnnpack.enabled:
        everything = config.backend.xnnpack.extended_ops
        kind = XnnpackPartitioner if everything else XnnpackDynamicallyQuantizedPartitioner
        partitioners.append(kind())
    edge = to_edge_transform_and_lower(
        exported,
        partitioner=partitioners,
        constant_methods=constants,
        generate_etrecord=records,
    )
    return edge.to_executorch(settings)


# ---- files of weights


def _has_files(config: LlmConfig) -> bool:
    export = config.export
    return export.foundation_weights_file is not None or export.lora_weights_file is not None


def _file_of(config: LlmConfig, node: Node) -> str | None:
    """The data file of a constant: adapters' have one of their own. None: in the program."""
    is_adapter = "lora_a" in node.name or "lora_b" in node.name
    export = config.export
    return export.lora_weights_file if is_adapter else export.foundation_weights_file


def _name_files(program: ExportedProgram, config: LlmConfig) -> None:
    """Tells delegates the data files of their weights."""
    for node in program.graph.nodes:
        file = _file_of(config, node) if node.op == "placeholder" else None
        if file is not None:
            node.meta.setdefault("custom", {})["delegate_constant_tag"] = file
