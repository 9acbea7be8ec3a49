"""Makes the small program files of this folder with upstream's exporter (wheel 1.5.1, torch 2.13).

    python make_golden.py OUTPUT_FOLDER

C tests and fuzzing start from these files. Each has one structural feature; weights are random with
a fixed seed. They are committed because making them needs upstream's wheel, which the tests of the
runtime must not need.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from functorch.experimental.control_flow import map as torch_map
from torch.export.experimental import _export_forward_backward


class AddMul(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6, dtype=torch.float32).reshape(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.weight) * x


class Cond(torch.nn.Module):
    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda t: t + t, lambda t: t * t, (x,))


class Map(torch.nn.Module):
    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch_map(lambda x, y: x + y, xs, y)


class DynamicView(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + x).reshape(-1) * 2


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((2,), 5.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count * 1


class Lists(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch.split(x, 2, dim=0)
        return torch.cat([b, a], dim=1), b


class Regression(torch.nn.Module):
    """A line through points, with its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[0.5, -1.0]]))
        self.bias = torch.nn.Parameter(torch.tensor([0.25]))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (((x * self.weight).sum(1) + self.bias - y) ** 2).mean()


class Scalars(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int, s: str, f: float) -> tuple[torch.Tensor, int]:
        return x * n + f, n


def export(
    module: torch.nn.Module, inputs: tuple, **kwargs: object
) -> torch.export.ExportedProgram:
    return torch.export.export(module.eval(), inputs, **kwargs)


def portable(
    module: torch.nn.Module, inputs: tuple, config: object = None, **kwargs: object
) -> bytes:
    return to_edge(export(module, inputs, **kwargs)).to_executorch(config).buffer


def main(folder: Path) -> None:
    torch.manual_seed(0)
    x = torch.ones(2, 3)
    files = {
        "add_mul": portable(AddMul(), (x,)),
        "cond": portable(Cond(), (torch.tensor(True), x)),
        "map": portable(Map(), (torch.ones(3, 2), torch.ones(2))),
        "dynamic_view": portable(
            DynamicView(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("n", min=1, max=8)}}
        ),
        "mutable": portable(
            Counter(),
            (torch.ones(2),),
            ExecutorchBackendConfig(
                passes=[InitializedMutableBufferPass(["count"])], emit_mutable_buffer_names=True
            ),
        ),
        "lists": portable(Lists(), (torch.ones(4, 3),)),
        "scalars": portable(Scalars(), (x, 3, "text", 0.5)),
        "training": to_edge(
            _export_forward_backward(
                torch.export.export(Regression(), (torch.ones(4, 2), torch.ones(4)))
            )
        )
        .to_executorch()
        .buffer,
        "unplanned": portable(
            AddMul(),
            (x,),
            ExecutorchBackendConfig(
                memory_planning_pass=MemoryPlanningPass(
                    alloc_graph_input=False, alloc_graph_output=False
                )
            ),
        ),
        "methods": to_edge(
            {"one": export(AddMul(), (x,)), "two": export(Lists(), (torch.ones(4, 3),))},
            constant_methods={"answer": 42, "name": "golden"},
        )
        .to_executorch()
        .buffer,
        "xnnpack": to_edge_transform_and_lower(
            export(AddMul(), (x,)), partitioner=[XnnpackPartitioner()]
        )
        .to_executorch()
        .buffer,
    }
    for name, data in files.items():
        (folder / f"{name}.pte").write_bytes(data)
    external = to_edge(export(AddMul(), (x,))).to_executorch(
        ExecutorchBackendConfig(external_constants=True)
    )
    external.write_tensor_data_to_file(str(folder))
    (folder / "_default_external_constant.ptd").rename(folder / "external.ptd")
    (folder / "external.pte").write_bytes(external.buffer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
