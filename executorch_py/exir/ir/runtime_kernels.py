"""Which operators this library's own runtime has kernels for, asked of the runtime itself.

Knows nothing of dtypes, ranks or other runtimes: that is the manifest's business.
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
    except ImportError:  # an exporter without its runtime: the manifest check says so
        return frozenset()
    return _names(len(_C.loaded_ops()))


def has_linked_kernel(op: OpOverload) -> bool:
    """Whether the out variant of a functional operator has a kernel in our runtime.

    Libraries of operators that were loaded meanwhile count.
    """
    out_variant = find_out_variant(op)
    if out_variant is None:
        return False
    schema = out_variant._schema
    return has_kernel_named(f"{schema.name}.{schema.overload_name}")


def has_kernel_named(name: str) -> bool:
    """Whether an operator of this name, overload included, can run here."""
    return name in _current_names()


def kernel_recipe(name: str, n_args: int, n_outputs: int = 1) -> str:
    """How a user brings a kernel that is missing, in lines to end a message with."""
    row = f".n_args = {n_args}"
    if n_outputs > 1:  # they lie before the result; of one alone a row need not speak
        row += f", .writes = {2**n_outputs - 1}u << {n_args - 1 - n_outputs}"
    return (
        f"Or bring a kernel of your own for {name} in one C file, before to_executorch():\n"
        "  executorch_py build-ops my_op.c -o my_op.so    "
        f"(--example prints such a file; here {row})\n"
        '  executorch_py.load_ops("my_op.so")             (again wherever the program runs)'
    )
