"""Programs with damaged bytes: files that load and run, and are wrong at one known place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from executorch_py.backends.xnnpack.payload.payload_flatbuffer import (
    Datatype,
    XNNGraph,
    XNNQuantizedTensorValue,
    XValue,
    payload_bytes,
    read_payload,
)
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.schema import (
    BackendDelegateInlineData,
    EValue,
    Instruction,
    Int,
    KernelCall,
)
from executorch_py.exir.serialize import deserialize_pte_binary, serialize_pte_binary


def int8_weights(model: nn.Module) -> list[torch.Tensor]:
    """The quantized weights of a converted model, in the order of its layers; no zero points."""
    tensors = [*model.parameters(), *model.buffers()]
    return [
        t.detach() for t in tensors if t.dtype == torch.int8 and t.dim() > 1 and t.numel() > len(t)
    ]


def change_weight(
    program: ExecutorchProgramManager, weight: torch.Tensor, row: int, change: int
) -> None:
    """Adds to the int8 weights of one output channel, in the bytes of the file.

    Backends store convolution weights with channels last, depthwise ones with one row in front.
    """
    orders = [(0, 1), (0, 2, 3, 1), (0, 1, 2, 3), (1, 2, 3, 0)]
    changed = weight.clone()
    changed[row] = (changed[row].to(torch.int32) + change).clamp(-127, 127).to(torch.int8)
    for order in orders:
        if len(order) != weight.dim():
            continue
        right, wrong = (w.permute(order).contiguous().numpy().tobytes() for w in (weight, changed))
        at = program.buffer.find(right)
        if at >= 0:
            program._bytes = program.buffer[:at] + wrong + program.buffer[at + len(wrong) :]
            return
    raise AssertionError("expected the weights among the bytes of the file")


def change_float(
    program: ExecutorchProgramManager, weight: torch.Tensor, index: int, factor: float
) -> None:
    """Multiplies one f32 weight, in the bytes of the file."""
    changed = weight.detach().clone()
    changed.view(-1)[index] *= factor
    right, wrong = (w.contiguous().numpy().tobytes() for w in (weight.detach(), changed))
    at = program.buffer.find(right)
    assert at >= 0, "expected the weights among the bytes of the file"
    program._bytes = program.buffer[:at] + wrong + program.buffer[at + len(wrong) :]


def change_payload(
    program: ExecutorchProgramManager, change: Callable[[XNNGraph], XNNGraph]
) -> None:
    """Changes the payload of the first delegate."""
    file = deserialize_pte_binary(program.buffer)
    data, *others = file.program.backend_delegate_data
    payload = payload_bytes(change(read_payload(bytes(data.data))))
    file.program = replace(
        file.program, backend_delegate_data=[BackendDelegateInlineData(payload), *others]
    )
    program._bytes = bytes(serialize_pte_binary(file))


def shift_output(program: ExecutorchProgramManager) -> None:
    """Adds 1 to the zero point of the last dequantize operator, which is in no delegate."""
    file = deserialize_pte_binary(program.buffer)
    (plan,) = file.program.execution_plan
    (chain,) = plan.chains
    name = "quantized_decomposed::dequantize_per_tensor"
    at, call = max(
        (i, instruction.instr_args)
        for i, instruction in enumerate(chain.instructions)
        if isinstance(instruction.instr_args, KernelCall)
        and plan.operators[instruction.instr_args.op_index].name == name
    )
    zero = plan.values[call.args[2]].val
    assert isinstance(zero, Int)
    values = [*plan.values, EValue(Int(zero.int_val + 1))]
    wrong = replace(call, args=[*call.args[:2], len(plan.values), *call.args[3:]])
    instructions = list(chain.instructions)
    instructions[at] = Instruction(wrong)
    plan = replace(plan, values=values, chains=[replace(chain, instructions=instructions)])
    file.program = replace(file.program, execution_plan=[plan])
    program._bytes = bytes(serialize_pte_binary(file))


def shift_zero_points(program: ExecutorchProgramManager, nth: int, by: int) -> None:
    """Shifts the zero point of one quantized value of the first delegate."""

    def change(graph: XNNGraph) -> XNNGraph:
        inner = [v for v in graph.xvalues if v.tensor.datatype == Datatype.QINT8]
        wrong = inner[nth].xvalue_union
        assert isinstance(wrong, XNNQuantizedTensorValue)
        quant = replace(wrong.quant_params, zero_point=wrong.quant_params.zero_point + by)
        shifted = XValue(replace(wrong, quant_params=quant))
        return replace(graph, xvalues=[shifted if v is inner[nth] else v for v in graph.xvalues])

    change_payload(program, change)
