"""The operators of quantized models: importing this registers them with torch.

The exporter does the same by itself when it meets such a model; the runtime has the kernels built
in.
"""

from executorch_py.exir.dialects.quantized_ops import register_quantized_ops

register_quantized_ops()
