"""ReferenceBackend: turns a partition into a numbered list of element-wise operations."""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.reference.payload import NO_VALUE, Node, Opcode, Payload
from executorch_py.backends.reference.support import opcode_of
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.debug_map import DelegateMappingBuilder
from executorch_py.exir.emit.emit_constants import dense
from executorch_py.exir.ir.graph import constant_tensors, flat_outputs, placeholders
from executorch_py.exir.schema import CompileSpec
from executorch_py.exir.serialize.cord import StoredTensor
from executorch_py.exir.serialize.named_data import NamedDataStore

_DATA_ALIGNMENT = 16


class ReferenceBackend(BackendDetails):
    """The ahead-of-time part; the class name is the id under which runtimes find the delegate."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """The payload of a partition, with the constants that it owns as named data."""
        constants = constant_tensors(edge_program)
        inputs = [n for n in placeholders(edge_program.graph) if n.name not in constants]
        operations = [n for n in edge_program.graph.nodes if n.op == "call_function"]
        ids = _number_values(edge_program, inputs, operations)
        n_outputs = len(flat_outputs(edge_program.graph))
        payload = Payload(len(inputs), n_outputs, len(operations) - n_outputs)
        mapping = DelegateMappingBuilder(generated_identifiers=True)
        for node in operations:
            payload.nodes.append(_operation(node, ids))
            if node.meta.get("debug_handle") is not None:
                mapping.insert_delegate_mapping_entry(nodes=node)
        store = NamedDataStore()
        next_id = len(inputs) + len(operations)
        for node in placeholders(edge_program.graph):
            if node.name in constants:
                key = _store(store, constants[node.name], node.name)
                payload.constants.append((ids[node], key))
        assert next_id + len(payload.constants) == len(ids)
        return PreprocessResult(
            processed_bytes=payload.to_bytes(),
            debug_handle_map=mapping.get_delegate_mapping() or None,  # type: ignore[arg-type]
            data_store_output=store.get_named_data_store_output(),
        )


def _number_values(
    ep: ExportedProgram, inputs: list[fx.Node], operations: list[fx.Node]
) -> dict[fx.Node, int]:
    """Ids of inputs, outputs, temporaries and constants, in this order."""
    outputs = flat_outputs(ep.graph)
    if len(set(outputs)) != len(outputs) or not all(node in operations for node in outputs):
        raise ValueError(
            "reference delegate: expected outputs that are distinct results of its operations, "
            f"got {[node.name for node in outputs]}"
        )
    temporaries = [node for node in operations if node not in outputs]
    rest = [node for node in placeholders(ep.graph) if node not in inputs]
    ordered = [*inputs, *outputs, *temporaries, *rest]
    return {node: i for i, node in enumerate(ordered)}


def _operation(node: fx.Node, ids: dict[fx.Node, int]) -> Node:
    code = opcode_of(node)
    if code is None:
        raise ValueError(f"reference delegate: expected add, sub, mul or relu, got '{node.name}'")
    operands = [ids[arg] for arg in node.args[:2] if isinstance(arg, fx.Node)]
    second = NO_VALUE if code is Opcode.RELU else operands[1]
    return Node(code, operands[0], second, ids[node])


def _store(store: NamedDataStore, tensor: torch.Tensor, name: str) -> str:
    laid_out, dim_order = dense(tensor)
    data = StoredTensor(laid_out, name, dim_order)
    store.add_named_data(data.digest, bytes(data), alignment=_DATA_ALIGNMENT)
    return data.digest
