"""Decoders of the Llama family in plain torch, from the JSON of their sizes."""

from executorch_py.extension.llm.model.model_args import ModelArgs, ModelArgsError, read_params
from executorch_py.extension.llm.model.transformer import Transformer

__all__ = ["ModelArgs", "ModelArgsError", "Transformer", "read_params"]
