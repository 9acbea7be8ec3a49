"""Upstream's path to two names that example scripts import; tracing itself is torch.export's."""

from executorch_py.exir.capture import ExirDynamoConfig
from executorch_py.exir.passes.pass_values import Value

__all__ = ["ExirDynamoConfig", "Value"]
