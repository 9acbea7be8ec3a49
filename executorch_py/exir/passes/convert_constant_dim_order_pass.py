"""Upstream's path to what is defined in convert_constant_dim_order.py."""

from executorch_py.exir.passes.convert_constant_dim_order import convert_constant_dim_order_pass

__all__ = ["convert_constant_dim_order_pass"]
