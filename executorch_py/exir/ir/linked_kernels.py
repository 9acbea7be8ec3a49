"""Which operators this library's own runtime has kernels for, asked of the runtime itself.

Knows nothing of dtypes, ranks or other runtimes: that is the manifest's business.
"""

from __future__ import annotations

from functools import cache

from torch._ops import OpOverload

from executorch_py.exir.ir.out_variants import find_out_variant


@cache
def _names() -> frozenset[str]:
    try:
        from executorch_py import _C
    except ImportError:  # an exporter without its runtime: the manifest check says so
        return frozenset()
    return frozenset(_C.kernel_manifest())


@cache
def has_linked_kernel(op: OpOverload) -> bool:
    """Whether the out variant of a functional operator has a kernel in our runtime."""
    out_variant = find_out_variant(op)
    if out_variant is None:
        return False
    schema = out_variant._schema
    return f"{schema.name}.{schema.overload_name}" in _names()
