"""Operator calls: arguments in schema order, defaults included, then the results once more.

The result entry is the out argument again, one list of them when there are several, the written
argument of an in-place operator, or a fresh number for operators that compute one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_values import Ref
from executorch_py.exir.error import InternalError, NotSupportedError
from executorch_py.exir.ir.op_traits import aliased_argument_of_returns

if TYPE_CHECKING:
    from executorch_py.exir.emit.emitter import MethodEmitter

_NUMBER_RESULTS: dict[type, schema.KernelTypes] = {
    torch.IntType: schema.Int(0),
    torch.FloatType: schema.Double(0.0),
    torch.BoolType: schema.Bool(False),
    torch.NumberType: schema.Int(0),  # the kernel replaces the value, its type included
}
_EMPTY_TENSOR = schema.Tensor(
    scalar_type=schema.ScalarType.BYTE,
    storage_offset=0,
    sizes=[0],
    dim_order=[0],
    requires_grad=False,
    layout=0,
    data_buffer_idx=0,
    allocation_info=None,
    shape_dynamism=schema.TensorShapeDynamism.STATIC,
)


def emit_operator(em: MethodEmitter, node: fx.Node, op: OpOverload) -> Any:
    """Emit one operator call; returns the value(s) of its result."""
    args, kwargs = em.resolve(node.args), em.resolve(node.kwargs)
    arguments: list[Ref] = []
    outs: list[Any] = []
    for position, arg in enumerate(op._schema.arguments):
        if arg.name in kwargs:
            value = kwargs[arg.name]
        elif not arg.kwarg_only and position < len(args):
            value = args[position]
        else:
            value = arg.default_value
        ref = emit_argument(em, value, arg.type, getattr(arg, "N", None))
        arguments.append(ref)
        if arg.is_out:
            outs.append(value if isinstance(value, (list, tuple)) else ref)
    result, entry = _results(em, node, op, arguments, outs)
    if entry is not None:
        arguments.append(entry)
    index = em.code.kernel(op._schema.name, op._schema.overload_name, arguments)
    em.note_operator(node, index)
    return result


def _results(
    em: MethodEmitter, node: fx.Node, op: OpOverload, arguments: list[Ref], outs: list[Any]
) -> tuple[Any, Ref | None]:
    """(what users of the node see, the extra entry of the call)."""
    returns = op._schema.returns
    if outs:
        result = outs[0] if len(outs) == 1 else outs
        return result, _entry(em, result)
    if not returns:
        return None, None
    if len(returns) == 1 and type(returns[0].type) in _NUMBER_RESULTS:
        number = em.values.fresh(_NUMBER_RESULTS[type(returns[0].type)])
        return number, number
    aliased = aliased_argument_of_returns(op)
    if len(returns) == 1 and aliased[0] is not None:
        result = arguments[aliased[0]]
        _bind_alias(em, node, result)
        return result, result
    result = em.emit_spec(node.meta["spec"])
    return result, _entry(em, result)


def _bind_alias(em: MethodEmitter, node: fx.Node, result: Ref) -> None:
    """The result of an in-place operator is the tensor it wrote, whichever spec it was given."""
    spec = node.meta.get("spec")
    if spec is not None and em.is_tensor_spec(spec) and em.values.of_spec(spec) is None:
        em.values.bind_spec(spec, result)


def _entry(em: MethodEmitter, result: Any) -> Ref:
    if isinstance(result, Ref):
        return result
    items = [ref.id for ref in em.flat_refs(result)]
    return em.values.shared(schema.TensorList(items))


def emit_argument(em: MethodEmitter, value: Any, arg_type: Any, length: int | None = None) -> Ref:
    """The value of one argument, of the type in its schema; None means the Python type."""
    if isinstance(value, Ref):
        return value
    if isinstance(arg_type, torch.OptionalType):
        if value is None:
            return em.values.literal(None)
        arg_type = arg_type.getElementType()
    if value is None and isinstance(arg_type, torch.TensorType):
        return em.values.shared(_EMPTY_TENSOR)
    if isinstance(arg_type, torch.ListType) and isinstance(value, (int, float)):
        value = [value] * (length or 1)
    if isinstance(value, (list, tuple)):
        element = arg_type.getElementType() if isinstance(arg_type, torch.ListType) else None
        return _emit_list(em, list(value), element)
    if isinstance(arg_type, torch.FloatType) and isinstance(value, int):
        value = float(value)
    elif isinstance(arg_type, torch.IntType) and isinstance(value, bool):
        value = int(value)
    elif isinstance(arg_type, torch.BoolType) and isinstance(value, int):
        value = bool(value)
    return em.values.literal(value)


def _emit_list(em: MethodEmitter, items: list[Any], element: Any) -> Ref:
    """A list; integers are boxed so that computed sizes can be among them."""
    if isinstance(element, torch.OptionalType):
        element = element.getElementType()
        if isinstance(element, torch.TensorType):
            ids = [-1 if item is None else item.id for item in items]
            return em.values.shared(schema.OptionalTensorList(ids))
    if element is None or isinstance(element, torch.NumberType):
        element = _guess_element(em, items)
    if isinstance(element, torch.TensorType):
        return em.values.shared(schema.TensorList([em.require_tensor(i).id for i in items]))
    if isinstance(element, torch.IntType):
        return em.values.shared(schema.IntList([em.value(item).id for item in items]))
    if any(isinstance(item, Ref) for item in items):
        raise NotSupportedError(
            f"a list of {element} holds a computed value; only integer lists can",
        )
    if isinstance(element, torch.BoolType):
        return em.values.shared(schema.BoolList([bool(item) for item in items]))
    if isinstance(element, torch.FloatType):
        return em.values.shared(schema.DoubleList([float(item) for item in items]))
    raise NotSupportedError(f"a list of {element} cannot be emitted")


def _guess_element(em: MethodEmitter, items: list[Any]) -> Any:
    """The element type of a list whose schema does not say."""
    if any(isinstance(i, Ref) and em.values.tensor(i) is not None for i in items):
        return torch.TensorType.get()
    if items and all(isinstance(i, bool) for i in items):
        return torch.BoolType.get()
    if any(isinstance(i, float) for i in items):
        return torch.FloatType.get()
    if all(isinstance(i, (int, Ref)) for i in items):
        return torch.IntType.get()
    raise InternalError(f"list {items} has no element type that the program format knows")
