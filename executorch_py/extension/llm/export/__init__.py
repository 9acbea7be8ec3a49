"""Export of language models to programs with key/value caches."""

from executorch_py.extension.llm.export.export_folder import export_folder
from executorch_py.extension.llm.export.hf_attention import UnsupportedDecoder
from executorch_py.extension.llm.export.hf_decoder import Decoder, export_decoder
from executorch_py.extension.llm.export.quantized_linear import quantize_layers

__all__ = [
    "Decoder",
    "UnsupportedDecoder",
    "export_decoder",
    "export_folder",
    "quantize_layers",
]
