"""exir.save and exir.load: torch.export's archive, extended by edge operators and delegates.

Edge and backend operators go through torch's extension hook. Values that torch cannot store become
a call of a stand-in operator whose name holds an index: delegate calls, and constants inside bodies
of control flow. The lowered modules, those constants and the debug handles are extra files of the
archive. Plain ATen programs round-trip as well.
"""

from __future__ import annotations

import base64
import io
import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any

import torch
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from executorch_py.atomic_file import replacing
from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import (
    BackendOpOverload,
    EdgeDialectFunctionSchema,
    EdgeOpOverload,
    resolve_op,
)
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import copy_program
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.passes.lower.debug_handle_generator import DEBUG_HANDLE_KEY
from executorch_py.exir.program.saved_delegates import (
    describe_delegate,
    original_program,
    restore_delegate,
)

File = str | os.PathLike[str] | IO[bytes]
_HANDLES = "executorch_debug_handles.json"
_DELEGATES = "executorch_delegates.json"
_CONSTANTS = "executorch_body_constants.b64"
_OWN_FILES = (_HANDLES, _DELEGATES, _CONSTANTS)
_NAMESPACE = "executorch_stand_in"


class _StandIn(EdgeOpOverload):
    """Stand-in for entry `index` of a table: a lowered module to call, or a constant to read."""

    def __init__(self, table: str, index: int, kinds: str, returns: str) -> None:
        arguments = ", ".join(f"{_ARGUMENT[kind]} a{i}" for i, kind in enumerate(kinds))
        result = "Tensor" if returns == "t" else "Tensor[]"
        schema = torch._C.parse_schema(f"{_NAMESPACE}::{table}_{index}({arguments}) -> {result}")
        self._schema = EdgeDialectFunctionSchema(schema)
        self._op: Any = None
        self.namespace = _NAMESPACE
        self.__name__ = f"{table}_{index}_{kinds}_{returns}"
        self.table = table
        self.index = index

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


_ARGUMENT = {"t": "Tensor", "n": "Tensor?", "i": "SymInt", "f": "float", "b": "bool"}


def _kind(argument: Any) -> str:
    value = argument.meta.get("val") if isinstance(argument, Node) else argument
    if isinstance(value, torch.Tensor):
        return "t"
    if value is None:
        return "n"
    if isinstance(value, (bool, torch.SymBool)):
        return "b"
    if isinstance(value, (int, torch.SymInt)):
        return "i"
    if isinstance(value, (float, torch.SymFloat)):
        return "f"
    raise ExportError(
        ExportErrorType.NOT_SUPPORTED,
        f"a delegate input of type {type(value).__name__} cannot be saved",
    )


def _operator_handler(dialect: str) -> Any:
    from torch._export.serde.serialize import ExtensionHandler

    class Handler(ExtensionHandler):
        """Names operators of one dialect as `namespace|name.overload`."""

        @classmethod
        def namespace(cls) -> str:
            return f"executorch_{dialect}"

        @classmethod
        def to_op_name(cls, op: EdgeOpOverload) -> str:
            return str(op._name).replace("::", "|")

        @classmethod
        def from_op_name(cls, name: str) -> EdgeOpOverload:
            return resolve_op(dialect, name.replace("|", "::"))

        @classmethod
        def op_schema(cls, op: EdgeOpOverload) -> torch.FunctionSchema:
            return op._op._schema

    return Handler


def _stand_in_handler() -> Any:
    from torch._export.serde.serialize import ExtensionHandler

    class Handler(ExtensionHandler):
        """Names a stand-in by table, index, kinds of inputs and of the result."""

        @classmethod
        def namespace(cls) -> str:
            return _NAMESPACE

        @classmethod
        def to_op_name(cls, op: _StandIn) -> str:
            return op.__name__

        @classmethod
        def from_op_name(cls, name: str) -> _StandIn:
            table, index, kinds, returns = name.split("_")
            return _StandIn(table, int(index), kinds, returns)

        @classmethod
        def op_schema(cls, op: _StandIn) -> torch.FunctionSchema:
            schema: torch.FunctionSchema = op._schema.schema
            return schema

    return Handler


@lru_cache(maxsize=1)
def _register() -> int:
    """Register our operators with torch's serialiser, once; returns the number of kinds."""
    from torch._export.serde.serialize import register_extension

    # Operators that a saved program may name must exist before it is read.
    assert DimOrderOpsMap
    register_extension(EdgeOpOverload, _operator_handler("edge"))
    register_extension(BackendOpOverload, _operator_handler("backend"))
    register_extension(_StandIn, _stand_in_handler())
    return 3


def _is_delegate_call(node: Node) -> bool:
    target = node.target
    return (
        isinstance(target, torch._ops.HigherOrderOperator)
        and str(target.name()) == "executorch_call_delegate"
    )


@dataclass
class _Delegates:
    """The lowered modules of a program being saved, each stored once."""

    modules: list[Any]

    def index(self, module: Any) -> int:
        for i, known in enumerate(self.modules):
            if known is module:
                return i
        self.modules.append(module)
        return len(self.modules) - 1


def _detach_delegates(ep: ExportedProgram) -> list[Any]:
    """Replace the delegate calls of `ep` by stand-ins, in place; return the lowered modules."""
    delegates = _Delegates([])
    for gm in graph_modules(ep.graph_module):
        for node in list(gm.graph.nodes):
            if node.op != "call_function" or not _is_delegate_call(node):
                continue
            attr, *inputs = node.args
            index = delegates.index(getattr(gm, str(attr.target)))
            returns = "t" if isinstance(node.meta["val"], torch.Tensor) else "l"
            node.target = _StandIn("delegate", index, "".join(map(_kind, inputs)), returns)
            node.args = tuple(inputs)
            if not attr.users:
                gm.graph.erase_node(attr)
                delattr(gm, str(attr.target))
        gm.recompile()
    return delegates.modules


def _attach_delegates(ep: ExportedProgram, modules: list[Any]) -> None:
    """Restore the delegate calls that `_detach_delegates` replaced."""
    if not modules:
        return
    from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate

    for gm in graph_modules(ep.graph_module):
        for node in list(gm.graph.nodes):
            if not isinstance(node.target, _StandIn) or node.target.table != "delegate":
                continue
            module = modules[node.target.index]
            name = f"lowered_module_{node.target.index}"
            if not hasattr(gm, name):
                gm.add_module(name, module)
            with gm.graph.inserting_before(node):
                attr = gm.graph.get_attr(name)
            attr.meta["val"] = module
            node.target = executorch_call_delegate
            node.args = (attr, *node.args)
        gm.recompile()


def _detach_constants(ep: ExportedProgram) -> list[torch.Tensor]:
    """Replace constant tensors that graphs own by stand-ins, in place; return the tensors."""
    constants: list[torch.Tensor] = []
    for gm in graph_modules(ep.graph_module):
        for node in gm.graph.find_nodes(op="get_attr"):
            value = getattr(gm, str(node.target), None)
            if not isinstance(value, torch.Tensor):
                continue
            with gm.graph.inserting_before(node):
                call = gm.graph.call_function(_StandIn("constant", len(constants), "", "t"))
            call.meta = dict(node.meta)
            constants.append(value)
            _take_place(node, call)
        gm.recompile()
    return constants


def _attach_constants(ep: ExportedProgram, constants: list[torch.Tensor]) -> None:
    """Restore the constants that `_detach_constants` replaced."""
    for gm in graph_modules(ep.graph_module):
        found = [n for n in gm.graph.nodes if getattr(n.target, "table", "") == "constant"]
        for i, node in enumerate(found):
            name = f"_tensor_constant{i}"
            gm.register_buffer(name, constants[node.target.index], persistent=False)
            with gm.graph.inserting_before(node):
                attr = gm.graph.get_attr(name)
            attr.meta = dict(node.meta)
            _take_place(node, attr)
        gm.recompile()


def _take_place(old: Node, new: Node) -> None:
    """Replace `old` by `new`, under its name."""
    name = old.name
    old.replace_all_uses_with(new)
    old._rename(f"{name}_replaced")
    old.graph.erase_node(old)
    new.name = name


def _encode_tensors(tensors: list[torch.Tensor]) -> str:
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _decode_tensors(text: str) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = torch.load(io.BytesIO(base64.b64decode(text)), weights_only=True)
    return tensors


class AppendOnly(io.RawIOBase):
    """A file for torch's archives that never raises: after an error it takes bytes and drops them.

    An exception in a write would end the process, because a destructor of torch writes on.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._error: BaseException | None = None

    def write(self, data: Any) -> int:
        if self._error is None:
            try:
                self._file.write(data)
            except BaseException as error:  # an interrupt would end the process as well
                self._error = error
        return memoryview(data).nbytes

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:  # torch asks, but only appends, and returns to the start
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        # The wrapper that tempfile gives is no IOBase, and some files have no such method.
        can = getattr(self._file, "seekable", bool)()
        return self._file.seek(offset, whence) if can and self._error is None else 0

    def check(self) -> None:
        """Raise the error of the first write that failed."""
        if self._error is not None:
            raise self._error


def opened(f: File) -> AbstractContextManager[IO[bytes]]:
    """A file to write: a new one that replaces the path, or the given one."""
    return replacing(f) if isinstance(f, (str, os.PathLike)) else nullcontext(f)


def _describe_delegate(module: Any) -> dict[str, Any]:
    original = io.BytesIO()
    save(module.original_module, original)
    return describe_delegate(module, original.getvalue())


def _restore_delegate(data: dict[str, Any]) -> Any:
    return restore_delegate(data, load(io.BytesIO(original_program(data))))


def _debug_handles(ep: ExportedProgram) -> list[dict[str, int]]:
    """Handles by node name, one table per graph in breadth-first order."""
    return [
        {
            node.name: node.meta[DEBUG_HANDLE_KEY]
            for node in gm.graph.nodes
            if isinstance(node.meta.get(DEBUG_HANDLE_KEY), int)
        }
        for gm in graph_modules(ep.graph_module)
    ]


def _restore_debug_handles(ep: ExportedProgram, tables: list[dict[str, int]]) -> None:
    for gm, table in zip(graph_modules(ep.graph_module), tables, strict=True):
        for node in gm.graph.nodes:
            if node.name in table:
                node.meta[DEBUG_HANDLE_KEY] = table[node.name]


def _refuse_unsaveable(gm: GraphModule) -> None:
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            name = getattr(node.target, "__name__", "")
            if (
                node.op == "call_function"
                and name in ("alloc", "view", "free")
                and not isinstance(node.target, EdgeOpOverload)
            ):
                raise ExportError(
                    ExportErrorType.NOT_SUPPORTED,
                    f"node '{node.name}' is a memory function of a program that is already lowered "
                    "for the runtime; save the edge program (or the .pte) instead",
                )


def _refuse_fake(ep: ExportedProgram) -> None:
    """Refuse weights without numbers, which torch would write as zeros."""
    for name, value in [*ep.state_dict.items(), *ep.constants.items()]:
        if isinstance(value, FakeTensor):
            raise ExportError(
                ExportErrorType.NOT_SUPPORTED,
                f"'{name}': expected a tensor with numbers, got a fake tensor: load the weights "
                "before the program is saved",
            )


def save(
    ep_save: ExportedProgram,
    f: File,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
) -> None:
    """Write an ATen or edge program, with its delegates, to a path or binary file.

    A file of this name is replaced when the program is complete, and stays if that fails.
    """
    if not isinstance(ep_save, ExportedProgram):
        raise TypeError(f"expected an ExportedProgram, got {type(ep_save).__name__}")
    _register()
    _refuse_unsaveable(ep_save.graph_module)
    _refuse_fake(ep_save)
    ep = copy_program(ep_save)
    modules = _detach_delegates(ep)
    files = dict(extra_files or {})
    files[_CONSTANTS] = _encode_tensors(_detach_constants(ep))
    files[_HANDLES] = json.dumps(_debug_handles(ep))
    files[_DELEGATES] = json.dumps([_describe_delegate(module) for module in modules])
    with opened(f) as file:
        stream = AppendOnly(file)
        torch.export.save(ep, stream, extra_files=files, opset_version=opset_version)
        stream.check()


def load(
    f: File,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read a program that `save` (or torch.export.save) wrote; fills the given `extra_files`."""
    _register()
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise FileNotFoundError(f"there is no file {os.fspath(f)!r} to load a program from")
    files = dict.fromkeys(extra_files or (), "") | dict.fromkeys(_OWN_FILES, "")
    ep = torch.export.load(f, extra_files=files, expected_opset_version=expected_opset_version)
    if extra_files is not None:
        extra_files.update({k: v for k, v in files.items() if k not in _OWN_FILES})
    if not files[_HANDLES]:
        return ep
    # Torch adds a node for every result of an operator; unread ones are removed.
    for gm in graph_modules(ep.graph_module):
        gm.graph.eliminate_dead_code()
    _attach_constants(ep, _decode_tensors(files[_CONSTANTS]))
    _restore_debug_handles(ep, json.loads(files[_HANDLES]))
    _attach_delegates(ep, [_restore_delegate(d) for d in json.loads(files[_DELEGATES])])
    return ep
