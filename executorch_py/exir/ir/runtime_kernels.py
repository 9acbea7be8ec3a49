"""Kernels of this project's runtime: the operators that it lists.

Knows nothing of dtypes, ranks or other runtimes: the manifest has these.
"""

from __future__ import annotations

from functools import cache

from torch._ops import OpOverload

from executorch_py.exir.ir.out_variants import find_out_variant


@cache
def _names(n_libraries: int) -> frozenset[str]:
    from executorch_py import _C

    return frozenset(_C.kernel_manifest())


def _current_names() -> frozenset[str]:
    try:
        from executorch_py import _C
    except ImportError:  # no runtime is installed; the manifest check warns
        return frozenset()
    return _names(len(_C.loaded_ops()))


def has_linked_kernel(op: OpOverload) -> bool:
    """Whether the out variant of a functional operator has a kernel in this project's runtime.

    Libraries of operators that are loaded in this process count, too.
    """
    out_variant = find_out_variant(op)
    if out_variant is None:
        return False
    schema = out_variant._schema
    return has_kernel_named(f"{schema.name}.{schema.overload_name}")


def has_kernel_named(name: str) -> bool:
    """Whether an operator of this name, overload included, can run here."""
    return name in _current_names()


def kernel_advice(name: str, n_args: int, n_outputs: int = 1) -> str:
    """Advice for users on adding a missing kernel: the last lines of a message."""
    row = f".n_args = {n_args}"
    if n_outputs > 1:  # outputs precede the result; one alone is the default
        row += f", .writes = {2**n_outputs - 1}u << {n_args - 1 - n_outputs}"
    return (
        f"Or bring a kernel of your own for {name} in one C file, before to_executorch():\n"
        "  executorch_py build-ops my_op.c -o my_op.so    "
        f"(--example prints such a file; here {row})\n"
        '  executorch_py.load_ops("my_op.so")             (again wherever the program runs)'
    )
