"""XNNPACK ahead of time: what is delegated (partition/, support.py) and payloads (ops/, passes/).

The delegate that runs them is csrc/backends/xnnpack; upstream's runtime runs them too.
"""

from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
)
from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.backends.xnnpack.utils.configs import (
    get_xnnpack_edge_compile_config,
    get_xnnpack_executorch_backend_config,
)

__all__ = [
    "XnnpackBackend",
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackPartitioner",
    "get_xnnpack_edge_compile_config",
    "get_xnnpack_executorch_backend_config",
]
