"""A loaded method: `execute` with flat inputs, as in upstream, and a call in the model's structure.

Method is a thin layer over the extension's Method, which does all conversions and checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from executorch_py import _C
from executorch_py.runtime.backend_options import whole_number
from executorch_py.runtime.metadata import MethodMeta
from executorch_py.terminal_text import shortened

if TYPE_CHECKING:
    from executorch_py.runtime.profile import InstructionProfile
    from executorch_py.runtime.signature import Signature


def prepare(
    method: _C.Method, info: Mapping[str, Any], signature_of: Callable[[], Signature]
) -> None:
    """Sets the names and exact bounds of a loaded method's inputs.

    The signature is read for messages, and at once if it may have bounds that the plan has not:
    its modules are half of the imports of a process that runs a program once.
    """
    method.name_inputs(lambda: [shortened(name) for name in signature_of().input_names])
    if any(value["tag"] != "Tensor" or value["dynamic"] for value in info["inputs"]):
        method.bound_inputs(signature_of().input_bounds())


def _signature_of(info: dict[str, Any]) -> Signature:
    from executorch_py.runtime.signature import Signature

    return Signature(info)


class Method:
    """A loaded method, made by Program.load_method(). One thread runs at a time; others wait."""

    __slots__ = ("_execute", "_info", "_method", "_n_threads", "_signature", "metadata")

    def __init__(self, method: _C.Method, info: dict[str, Any], n_threads: int) -> None:
        self._method = method
        self._n_threads = n_threads
        self._execute = method.execute
        self._info = info
        self._signature: Signature | None = None
        self.metadata = MethodMeta(info)
        prepare(method, info, partial(_signature_of, info))

    @property
    def signature(self) -> Signature:
        """Inputs and outputs: names, dtypes, bounds of sizes, structure."""
        if self._signature is None:
            self._signature = _signature_of(self._info)
        return self._signature

    def execute(self, inputs: Sequence[Any], *others: Any) -> list[Any]:
        """Runs with flat inputs and returns the flat outputs, as copies.

        Inputs may be NumPy arrays, torch tensors, anything with DLPack or a buffer, and plain
        scalars. Outputs are torch tensors when any input was one (or when there is no tensor
        input and torch is loaded), else NumPy arrays.
        """
        if others:
            raise TypeError(
                f"execute: expected one list of all inputs, got {1 + len(others)} arguments: write "
                "execute([a, b]), or call the method as the model: method(a, b)"
            )
        return self._execute(inputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs with the arguments of the exported model; returns what the model returned."""
        return self.signature.unflatten(self._execute(self.signature.flatten(args, kwargs)))

    def profile(self, inputs: Sequence[Any], runs: int = 5) -> list[InstructionProfile]:
        """Time of each instruction with these flat inputs: medians over `runs` runs.

        A run before these warms up and is not counted. The state of a method changes as in
        `runs` + 1 runs. The first profile of a process also measures the peak rates of the machine.
        """
        from executorch_py.runtime.profile import profile_of

        return profile_of(self._method, inputs, runs, self._n_threads)

    def trace(self, inputs: Sequence[Any]) -> list[tuple[int, str, list[Any]]]:
        """Copies of the results of each instruction of one run with these flat inputs.

        An item is the instruction's index, its operator or backend, and its results: the last
        argument of an operator, all arguments of a delegate's call, the value that a move
        replaces; none of a jump or a free. A loop repeats instructions.
        """
        self._method.set_inputs(inputs)
        return self._method.trace()

    def seed(self, seed: int) -> None:
        """Restarts the random operators; a seed gives the same numbers on every machine.

        A method is loaded with seed 0, so two loads draw the same numbers until seed() is called.
        The numbers differ from torch's for the same seed.
        """
        self._method.seed(whole_number("seed", seed))

    @property
    def name(self) -> str:
        return self._method.name

    @property
    def layout_conversions(self) -> int:
        """Number of inputs so far that were copied because their layout differed from the plan."""
        return self._method.layout_conversions

    @property
    def memory(self) -> _C.MemoryUse:
        """Bytes held: `method` (tables, prepared weights), `scratch`, `planned` (a list)."""
        return self._method.memory()

    def attribute(self, name: str) -> Any:
        """A copy of a named buffer."""
        return self._method.attribute(name)

    def close(self) -> None:
        """Frees the method's memory now; later calls fail with InvalidState."""
        self._method.close()

    def __repr__(self) -> str:
        return f"<Method {self.signature}>"
