"""BackendDetails, the base of backends: a class name is the id, `preprocess` makes the payload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.export import ExportedProgram

from executorch_py.exir.backend.opened_payload import OpenedPayload
from executorch_py.exir.ir.graph import copy_program
from executorch_py.exir.schema import CompileSpec
from executorch_py.exir.serialize.named_data import NamedDataStoreOutput


def enforcedmethod(func: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a method that every implementation must provide."""
    func.__enforcedmethod__ = True  # type: ignore[attr-defined]
    return func


@dataclass
class PreprocessResult:
    """The payload that a backend made of one partition."""

    processed_bytes: bytes = b""
    debug_handle_map: dict[int, tuple[int, ...]] | dict[str, tuple[int, ...]] | None = None
    data_store_output: NamedDataStoreOutput | None = None
    _delegate_info_meta: Any = None


# Tail padding of a backend whose class is not imported.
UNKNOWN_TAIL_PADDING = 64


class BackendDetails(ABC):
    """Base class of backends. The class name is the id that the runtime looks up; it is final."""

    # True if the backend of the runtime accepts tensors without elements; verifiers read it.
    runs_empty_tensors: ClassVar[bool] = True
    # Bytes that the backend of the runtime may read past the end of each input. The memory planner
    # adds that many bytes to every memory of a program with such a delegate.
    tail_padding: ClassVar[int] = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__bases__:
            if issubclass(base, BackendDetails) and base is not BackendDetails:
                raise TypeError(
                    f"backend '{base.__name__}' is final, '{cls.__name__}' cannot derive from it; "
                    "derive from BackendDetails and share code through functions"
                )

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program that `preprocess` may change: a graph of its own over the same tensors."""
        return copy_program(edge_program)

    @staticmethod
    @enforcedmethod
    @abstractmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Turn a partition into the payload that the runtime's backend reads.

        The graph given may be changed, the tensors of its state must not be written to.
        """

    @classmethod
    def opened(cls, payload: bytes, with_floats: bool = False) -> OpenedPayload | None:
        """The payload with its intermediate values as results, for verifiers that compare nodes.

        Floats that were computed from floats are among them if `with_floats`; they are shown even
        if nodes are fused otherwise, which rounds in other places. None for backends whose values
        stay inside.
        """
        return None

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """All partitions of all methods at once, for backends that share data between them."""
        results = {}
        for method, programs in edge_programs.items():
            if len(compile_specs.get(method, ())) != len(programs):
                raise ValueError(
                    f"method '{method}' has {len(programs)} partitions and compile specs for "
                    f"{len(compile_specs.get(method, ()))}"
                )
            pairs = zip(programs, compile_specs[method], strict=True)
            results[method] = [cls.preprocess(program, specs) for program, specs in pairs]
        return results
