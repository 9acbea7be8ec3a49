"""The operators of quantized models, registered with torch on import.

The exporter registers them itself for a quantized model; the runtime has the kernels built in.
"""

from executorch_py.exir.dialects.quantized_ops import register_quantized_ops

register_quantized_ops()
