"""The instructions and operators of one method, in the order they run.

There is one list per method, control flow included, so jumps name an instruction by its index.
Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_values import Ref


class InstructionList:
    """The list of instructions; forward jumps are appended without a destination at first."""

    def __init__(self) -> None:
        self.instructions: list[schema.Instruction] = []
        self.operators: list[schema.Operator] = []
        self.frames: list[schema.FrameList] = []
        self.current_frames = schema.FrameList([])
        self._operator_index: dict[tuple[str, str], int] = {}

    @property
    def next_index(self) -> int:
        """Index of the instruction that will be added next."""
        return len(self.instructions)

    def add(self, args: schema.InstructionArguments) -> int:
        """Append an instruction; returns its index."""
        self.instructions.append(schema.Instruction(args))
        self.frames.append(self.current_frames)
        return len(self.instructions) - 1

    def kernel(self, name: str, overload: str, args: Sequence[Ref]) -> int:
        """Append a call of an operator by name."""
        key = (name, overload)
        index = self._operator_index.get(key)
        if index is None:
            index = self._operator_index[key] = len(self.operators)
            self.operators.append(schema.Operator(name, overload))
        return self.add(schema.KernelCall(index, [ref.id for ref in args]))

    def move(self, source: Ref, target: Ref) -> int:
        """Append a move of a value."""
        return self.add(schema.MoveCall(source.id, target.id))

    def jump_if_false(self, condition: Ref, destination: int = -1) -> int:
        """Append a jump; without a destination, `aim` must set it later."""
        return self.add(schema.JumpFalseCall(condition.id, destination))

    def aim(self, jump: int, destination: int | None = None) -> None:
        """Give a reserved jump its destination, by default the next instruction."""
        call = self.instructions[jump].instr_args
        assert isinstance(call, schema.JumpFalseCall)
        target = self.next_index if destination is None else destination
        self.instructions[jump] = schema.Instruction(
            schema.JumpFalseCall(call.cond_value_index, target)
        )
