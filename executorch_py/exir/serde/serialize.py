"""Upstream's path to save and load; see save_load.py."""

from executorch_py.exir.save_load import load, save

__all__ = ["load", "save"]
