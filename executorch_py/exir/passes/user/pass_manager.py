"""Pass managers: lists of passes over a graph module or over a whole exported program.

`ExportedProgramPassManager` takes passes over graph modules and passes over programs alike and
keeps signature and ranges in step; `PassManager` is the older form for graph modules alone.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._export.verifier import Verifier
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult
from torch.fx.passes.infra.pass_manager import PassManager as _FxPassManager
from torch.fx.passes.infra.pass_manager import pass_result_wrapper
from torch.utils import _pytree as pytree

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.signature import (
    program_with_graph,
    updated_range_constraints,
    updated_signature,
)
from executorch_py.exir.passes.user.pass_values import (
    ExportedProgramPassBase,
    ExportedProgramPassResult,
)

PassType = ExportedProgramPassBase | Callable[[GraphModule], PassResult | None]

__all__ = ["ExportedProgramPassManager", "PassManager", "PassType"]


def _pass_name(fn: Any) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


def _refuse_methods(gm: GraphModule) -> None:
    for node in gm.graph.nodes:
        if node.op == "call_method":
            raise ExportError(
                ExportErrorType.NOT_SUPPORTED,
                f"call_method `{node}` is not supported except for backend delegate.",
            )


class PassManager(_FxPassManager):
    """Runs passes over a graph module, `steps` times or until nothing changes."""

    def __init__(
        self,
        passes: Sequence[Any] | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
        steps: int = 1,
    ) -> None:
        super().__init__(
            [pass_result_wrapper(fn) for fn in _checked_passes(passes or ())],
            run_checks_after_each_pass=run_checks_after_each_pass,
            suppress_check_failures=suppress_check_failures,
            steps=steps,
        )

    def check(self, module: torch.nn.Module) -> None:
        """Refuse a module whose graph is not well-formed."""
        assert isinstance(module, GraphModule)
        module.recompile()
        module.graph.lint()
        _refuse_methods(module)


class ExportedProgramPassManager(_FxPassManager):
    """Runs passes over a program; each pass is one over graph modules or one over programs."""

    def __init__(
        self,
        passes: Sequence[Any] | None = None,
        constraints: list[Callable[[Any, Any], bool]] | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
        steps: int = 1,
    ) -> None:
        super().__init__(
            [
                fn if isinstance(fn, ExportedProgramPassBase) else pass_result_wrapper(fn)
                for fn in _checked_passes(passes or ())
            ],
            constraints=constraints,
            run_checks_after_each_pass=run_checks_after_each_pass,
            suppress_check_failures=suppress_check_failures,
            steps=steps,
        )

    def check(self, exported_program: Any) -> None:
        """Refuse a program whose graph is not well-formed."""
        gm = exported_program.graph_module
        gm.recompile()
        gm.graph.lint()
        _refuse_methods(gm)
        exported_program.validate()

    def __call__(
        self,
        exported_program: ExportedProgram,
        override_verifiers: list[type[Verifier]] | None = None,
    ) -> ExportedProgramPassResult:
        """Run all passes; the given program object is not changed, its graph module may be."""
        if not self._validated:
            self.solve_constraints()
        program = copy.copy(exported_program)
        if override_verifiers:
            program._verifiers = override_verifiers
        modified = False
        for _ in range(self.steps):
            program, changed = self._step(program)
            modified |= changed
            if not changed:
                break
        self.check(program)
        return ExportedProgramPassResult(program, modified)

    def _step(self, program: ExportedProgram) -> tuple[ExportedProgram, bool]:
        modified = False
        for i, fn in enumerate(self.passes):
            try:
                program, changed = _run(fn, program)
                if self.run_checks_after_each_pass:
                    self.check(program)
            except Exception as error:
                before = [_pass_name(p) for p in self.passes[:i]]
                raise Exception(
                    f"An error occurred when running the '{_pass_name(fn)}' pass after the "
                    f"following passes: {before}"
                ) from error
            modified |= changed
        return program, modified


def _run(fn: Any, program: ExportedProgram) -> tuple[ExportedProgram, bool]:
    if isinstance(fn, ExportedProgramPassBase):
        result = fn(program)
        if result.modified:
            result.exported_program.graph_module.recompile()
        return result.exported_program, result.modified
    gm_result = fn(program.graph_module)
    if gm_result is None:
        raise TypeError(f"pass {_pass_name(fn)}: expected a PassResult, got None")
    if not gm_result.modified:
        return program, False
    gm = gm_result.graph_module
    program._graph_signature = updated_signature(program.graph_signature, gm)
    program._graph_module = gm
    program._range_constraints = updated_range_constraints(gm)
    gm.recompile()
    return program, True


def holds_program(passes: Any, ep: ExportedProgram) -> bool:
    """Whether a pass of a list or pass manager has a program as its attribute."""
    listed = passes.passes if isinstance(passes, _FxPassManager) else _checked_passes(passes)
    held = (vars(getattr(fn, "__wrapped__", fn)) for fn in listed if hasattr(fn, "__dict__"))
    return any(value is ep for attributes in held for value in attributes.values())


def run_passes(ep: ExportedProgram, passes: Any) -> ExportedProgram:
    """Run a list of passes or a pass manager over a program that may be changed."""
    if isinstance(passes, _FxPassManager) and not isinstance(passes, ExportedProgramPassManager):
        result = passes(ep.graph_module)
        return _with_new_graph(ep, result.graph_module) if result.modified else ep
    manager = (
        passes
        if isinstance(passes, ExportedProgramPassManager)
        else ExportedProgramPassManager(passes)
    )
    result = manager(ep)
    program: ExportedProgram = result.exported_program if result.modified else ep
    return program


def _checked_passes(passes: Any) -> list[Any]:
    """The passes of a list, which may have lists in it."""
    if isinstance(passes, str) or not isinstance(passes, Iterable):
        raise TypeError(f"passes: expected a list of passes, got {passes!r}")
    found: list[Any] = pytree.tree_leaves(list(passes))
    for item in found:
        if not isinstance(item, str) and hasattr(item, "partition"):
            raise TypeError(
                f"passes: expected a pass, got the partitioner {type(item).__name__}: give it as "
                "partitioner=[…]"
            )
        if not callable(item):
            raise TypeError(f"passes: expected a pass, an object to call, got {item!r}")
    return found


def _with_new_graph(ep: ExportedProgram, gm: GraphModule) -> ExportedProgram:
    new = program_with_graph(ep, gm)
    new._range_constraints = updated_range_constraints(gm)
    return new
