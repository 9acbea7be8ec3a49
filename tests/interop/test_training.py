"""Training programs: loss and gradients of a convolutional classifier, on both runtimes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tolerance import EXACT, F32_MODEL, assert_near
from support.upstream_peer import Upstream

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch_py.exir.passes import MemoryPlanningPass
from interop.training import OPTIMIZERS, expected, inputs, joint, run, train, write


def assert_equal_to_eager(folder: Path, optimizer: str = "plain", model: str = "strided") -> None:
    steps = expected(model, optimizer)
    found = torch.load(folder / "training.pt")
    assert_near_with_first_weights(found[0], steps[0])
    for ours, eager in zip(found, steps, strict=True):
        assert_near(ours, eager, F32_MODEL)


def assert_near_with_first_weights(outputs: list[Any], eager: list[Any]) -> None:
    """Loss and gradients are near eager's; the weights, before any update, have the same bits."""
    assert len(outputs) == len(eager) == 9
    assert_near(outputs[:5], eager[:5], F32_MODEL)
    assert_near(outputs[5:], eager[5:], EXACT)


@pytest.mark.parametrize("model", ["strided", "pooled"])
def test_loss_and_gradients_of_a_convolution_equal_eager(model: str) -> None:
    outputs = to_edge(joint(model)).to_executorch().run(*inputs())
    assert_near_with_first_weights(list(outputs), expected(model)[0])


def test_weights_are_memory_that_an_optimizer_updates(tmp_path: Path) -> None:
    write("executorch_py", tmp_path)
    run("executorch_py", tmp_path)
    assert_equal_to_eager(tmp_path)


def test_upstreams_runtime_trains_what_we_write(upstream: Upstream, tmp_path: Path) -> None:
    write("executorch_py", tmp_path)
    upstream.ask("run_training", "", tmp_path)
    assert_equal_to_eager(tmp_path)


def test_our_runtime_trains_what_upstream_writes(upstream: Upstream, tmp_path: Path) -> None:
    upstream.ask("write_training", "strided", tmp_path)
    run("executorch_py", tmp_path)
    assert_equal_to_eager(tmp_path)


@pytest.fixture(scope="module")
def written(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the training program of each side."""
    folder = tmp_path_factory.mktemp("written")
    for side in ("upstream", "executorch_py"):
        (folder / side).mkdir()
    upstream.ask("write_training", "strided", folder / "upstream")
    write("executorch_py", folder / "executorch_py")
    return folder


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("writer", ["upstream", "executorch_py"])
@pytest.mark.parametrize("reader", ["upstream", "executorch_py"])
def test_training_modules_of_both_sides_take_the_same_steps(
    upstream: Upstream, written: Path, tmp_path: Path, writer: str, reader: str, optimizer: str
) -> None:
    shutil.copy(written / writer / "training.pte", tmp_path)
    if reader == "upstream":
        upstream.ask("train", optimizer, tmp_path)
    else:
        train(reader, optimizer, tmp_path)
    assert_equal_to_eager(tmp_path, optimizer)


# Upstream's module reads a file of upstream's wrong: see docs/compatibility.md.
@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("executorch_py", "executorch_py"),
        ("executorch_py", "upstream"),
        ("upstream", "executorch_py"),
    ],
)
def test_a_model_that_writes_a_buffer_trains_right(
    upstream: Upstream, tmp_path: Path, writer: str, reader: str
) -> None:
    if writer == "upstream":
        upstream.ask("write_training", "counting", tmp_path)
    else:
        write(writer, tmp_path, "counting")
    if reader == "upstream":
        upstream.ask("train", "plain", tmp_path)
    else:
        train(reader, "plain", tmp_path)
    assert_equal_to_eager(tmp_path, model="counting")


@pytest.mark.parametrize(
    "options",
    [{"alloc_graph_output": False}, {"alloc_mutable_buffers": False}, {"alloc_graph_input": False}],
    ids=str,
)
def test_trained_weights_have_memory_whatever_else_is_planned(options: dict[str, bool]) -> None:
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(**options))
    program = to_edge(joint()).to_executorch(config)
    signature = program.exported_program().graph_signature
    values = program.executorch_program.execution_plan[0].values
    names = list(signature.inputs_to_parameters.values())
    tensors = dict(zip(names, (value.val for value in values), strict=False))
    for name in ("conv.weight", "conv.bias", "last.weight", "last.bias"):
        assert tensors[name].allocation_info is not None and tensors[name].data_buffer_idx > 0
    assert tensors["frozen.bias"].allocation_info is None


def test_delegates_leave_trained_weights_to_the_program() -> None:
    edge = to_edge_transform_and_lower(joint(), partitioner=[XnnpackPartitioner()])
    assert {"frozen.bias"}.isdisjoint(edge.exported_program().state_dict), "a delegate has it"
    assert_near_with_first_weights(list(edge.to_executorch().run(*inputs())), expected()[0])
