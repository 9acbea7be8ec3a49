"""Upstream's paths around XNNPACK, so that scripts which ask for it run: without the delegate.

There is no XNNPACK delegate here. Its partitioners take nothing and say so; the whole model runs on
the project's own kernels.
"""

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
)
from executorch_py.backends.xnnpack.utils.configs import (
    get_xnnpack_edge_compile_config,
    get_xnnpack_executorch_backend_config,
)

__all__ = [
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackPartitioner",
    "get_xnnpack_edge_compile_config",
    "get_xnnpack_executorch_backend_config",
]
