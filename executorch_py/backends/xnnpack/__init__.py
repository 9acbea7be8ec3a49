"""The XNNPACK delegate ahead of time: partitioner, quantizer, and payloads for the runtime.

README.md has the map. csrc/backends/xnnpack runs the payloads, and so does upstream's runtime.
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
