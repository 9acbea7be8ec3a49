"""Tensors that a trace recorded twice: as a buffer, and as a constant that the graph changes."""

import torch

from executorch_py.exir import to_edge
from executorch_py.exir.decompose.shared_constants import merge_shared_constants
from executorch_py.runtime import Runtime


class Cache:
    """A plain object with a tensor, as the caches of transformers are."""

    def __init__(self) -> None:
        self.rows = torch.zeros(4, 3)


class Cached(torch.nn.Module):
    """Writes rows into a cache whose tensor is a buffer as well, and returns their sums."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.register_buffer("rows", self.cache.rows)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.cache.rows.index_copy_(0, at, x)
        return self.cache.rows.sum(0)


def exported() -> torch.export.ExportedProgram:
    example = torch.ones(2, 3), torch.tensor([0, 1])
    with torch.no_grad():
        return torch.export.export(Cached(), example, strict=False)


def test_a_cache_that_is_also_a_buffer_keeps_its_rows_from_call_to_call():
    program = to_edge(exported()).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    first = method.execute([torch.ones(2, 3), torch.tensor([0, 1])])[0]
    second = method.execute([torch.full((2, 3), 5.0), torch.tensor([2, 3])])[0]
    assert first.tolist() == [2, 2, 2]
    assert second.tolist() == [12, 12, 12]


def test_the_buffer_is_kept_and_the_constant_is_dropped():
    program = exported()
    merged = merge_shared_constants(program)
    kinds = [spec.kind.name for spec in merged.graph_signature.input_specs]
    assert kinds == ["BUFFER", "USER_INPUT", "USER_INPUT"]
    assert len(program.graph_signature.input_specs) == 4  # the argument is left as it is


def test_a_program_without_shared_tensors_is_returned_itself():
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    assert merge_shared_constants(program) is program


def test_parts_of_one_storage_stay_apart():
    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            both = torch.arange(4.0)
            self.register_buffer("first", both[:2])
            self.second = both[2:]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.first * self.second

    program = torch.export.export(Halves(), (torch.ones(2),), strict=False)
    assert merge_shared_constants(program) is program
