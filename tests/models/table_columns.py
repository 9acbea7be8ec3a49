"""The columns of the models table: one architecture lowered in one way, run, and compared.

A cell is "ok", "refused" (an error before the file runs, with the stage and the error's text) or
"differs" (the file's results are not those of the model). Eager torch judges the float columns,
the converted graph judges int8; the rule is that of `program.verify`.
"""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable
from datetime import date
from typing import Any

import torch
from torch import fx, nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    prepare_pt2e,
)
from executorch_py.testing import ParityError
from models.table_entry import Architecture, Inputs

COLUMNS = ("portable", "xnnpack", "int8")
SAMPLES = 3


class Stage:
    """The name of the step that runs now."""

    name = "build"


def cell(architecture: Architecture, column: str) -> dict[str, Any]:
    """The record of one cell."""
    stage = Stage()
    record: dict[str, Any] = {"name": architecture.name, "column": column}
    began = time.perf_counter()
    try:
        record |= _measured(architecture, column, stage)
    except ParityError as error:
        record |= {"status": "differs", "error": str(error)[:4000]}
    except Exception as error:
        record |= {
            "status": "refused",
            "error": f"{type(error).__name__}: {error}"[:4000],
            "trace": traceback.format_exc()[-6000:],
        }
    record["stage"] = stage.name
    record["date"] = date.today().isoformat()
    record["seconds"] = round(time.perf_counter() - began, 1)
    record["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return record


def _measured(architecture: Architecture, column: str, stage: Stage) -> dict[str, Any]:
    model, inputs = architecture.build(), architecture.inputs()
    with torch.no_grad():
        model(*inputs)
        stage.name = "export"
        exported = torch.export.export(model, inputs)
        if column == "int8":
            stage.name = "quantize"
            model = quantized(exported.module(), inputs)
            exported = torch.export.export(model, inputs)
    stage.name = "lower"
    partitioner = [] if column == "portable" else [XnnpackPartitioner()]
    given = count_calls(exported.graph_module)
    began = time.process_time()  # the machine may do other work
    edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
    program = edge.to_executorch()
    spent = time.process_time() - began
    size = len(program.buffer)
    written = time.process_time() - began - spent
    nodes = max(given, count_calls(edge.exported_program().graph_module))
    record = {
        "nodes": nodes,
        "delegates": count_delegates(edge.exported_program().graph_module),
        "lowering_seconds": round(spent, 3),
        "ms_per_node": round(1000 * spent / max(nodes, 1), 2),
        "bytes": size,
        "bytes_seconds": round(written, 3),
    }
    stage.name = "run"
    try:
        report = program.verify(model, *inputs)
    except ParityError as error:
        is_export = "The graph that torch.export makes" in str(error)
        status = "refused" if is_export else "differs"
        return {**record, "status": status, "error": str(error)[:4000]}
    except Exception as error:
        trace = traceback.format_exc()[-6000:]
        text = f"{type(error).__name__}: {error}"[:4000]
        return {**record, "status": "refused", "error": text, "trace": trace}
    rules = sorted({c.rule for c in report.comparisons})
    return {**record, "status": "ok", "rules": rules}


def quantized(exported: fx.GraphModule, inputs: Inputs) -> nn.Module:
    """The converted int8 graph, calibrated with a few random inputs."""
    config = get_symmetric_quantization_config(is_per_channel=True)
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    torch.manual_seed(1)
    more = [tuple(another(x) for x in inputs) for _ in range(SAMPLES - 1)]
    calibrate(prepared, [inputs, *more], progress=False)
    return convert_pt2e(prepared)


def another(x: torch.Tensor) -> torch.Tensor:
    """A tensor like this one: fresh noise, or the same words or boxes in another order."""
    if x.is_floating_point():
        return torch.randn_like(x)
    return x.flip(min(1, x.dim() - 1)) if x.dtype == torch.int64 and x.dim() else x


def count_calls(module: nn.Module) -> int:
    """The operators of a graph, of its subgraphs and of its delegates."""
    return sum(
        node.op == "call_function" and "getitem" not in str(node.target)
        for graph in graphs_of(module)
        for node in graph.nodes
    )


def count_delegates(module: nn.Module) -> int:
    return sum(hasattr(part, "original_module") for part in module.modules())


def graphs_of(module: nn.Module) -> list[fx.Graph]:
    found: list[fx.Graph] = []
    for part in module.modules():
        if hasattr(part, "original_module"):
            found += graphs_of(part.original_module.graph_module)
        elif isinstance(part, fx.GraphModule):
            found.append(part.graph)
    return found


def warm_up() -> None:
    """Lowers one layer, so that imports and tables made once are not part of the times."""
    exported = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert edge.to_executorch().buffer


Report = Callable[[dict[str, Any]], None]


def cells(architecture: Architecture, columns: list[str], report: Report) -> None:
    warm_up()
    for column in columns:
        report(cell(architecture, column))
