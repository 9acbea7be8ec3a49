"""The emitter's output as files: one .pte and one .ptd per tag of external data.

This step between emission and the byte formats chooses the file of each named blob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch_py.exir.ir.tensor_layout import TensorLayout
from executorch_py.exir.schema import Program, Tensor, TensorDataLocation
from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.named_data import NamedDataStore, NamedDataStoreOutput
from executorch_py.exir.serialize.ptd import DataPayload, serialize_data_file
from executorch_py.exir.serialize.pte import PTEFile, serialize_pte_binary

if TYPE_CHECKING:
    from executorch_py.exir.emit import EmitterOutput

CACHE_LINE = 64  # bytes


def serialize_for_executorch(
    emitter_output: EmitterOutput,
    config: Any,
    data_serializer: Any = None,
    named_data_store: NamedDataStoreOutput | None = None,
) -> tuple[Cord, dict[str, Cord]]:
    """The program file and the data files by tag. `config` is an ExecutorchBackendConfig.

    `data_serializer` (an object with `serialize(DataPayload)`) replaces the .ptd writer when given.
    """
    program_file = serialize_pte_binary(
        PTEFile(emitter_output.program, emitter_output.mutable_data, named_data_store),
        extract_delegate_segments=config.extract_delegate_segments,
        segment_alignment=config.segment_alignment,
        constant_tensor_alignment=config.constant_tensor_alignment or _alignment(config),
        delegate_alignment=config.delegate_alignment,
    )
    store = NamedDataStore()
    layouts = _external_layouts(emitter_output.program)
    for tag, by_name in (emitter_output.external_constant_map or {}).items():
        for name, index in by_name.items():
            data = emitter_output.external_constant_buffer[index]
            store.add_named_data(name, data, external_tag=tag, tensor_layout=layouts[name])
    if named_data_store is not None:
        store.merge_named_data_store(named_data_store)
    files = {}
    for tag, entries in store.get_named_data_store_output().external_data.items():
        payload = DataPayload(store.buffers, entries)
        if data_serializer is not None:
            files[tag] = data_serializer.serialize(payload)
        else:
            files[tag] = serialize_data_file(payload, config.segment_alignment)
    return program_file, files


def _alignment(config: Any) -> int | None:
    """Alignment of constants: packed weights are read in place, a cache line at a time."""
    return CACHE_LINE if config.own_operators and config.prepack else None


def _external_layouts(program: Program) -> dict[str, TensorLayout]:
    """Type and layout of every tensor whose data is outside the program, by name."""
    found = {}
    for plan in program.execution_plan:
        for value in plan.values:
            tensor = value.val
            info = tensor.extra_tensor_info if isinstance(tensor, Tensor) else None
            if info is None or info.location != TensorDataLocation.EXTERNAL:
                continue
            assert isinstance(tensor, Tensor) and info.fully_qualified_name is not None
            found[info.fully_qualified_name] = TensorLayout(
                tensor.scalar_type, tensor.sizes, tensor.dim_order
            )
    return found
