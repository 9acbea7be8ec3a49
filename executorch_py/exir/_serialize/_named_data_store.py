"""Upstream's import path of the named data store."""

from executorch_py.exir.serialize.named_data import NamedDataStore, NamedDataStoreOutput

__all__ = ["NamedDataStore", "NamedDataStoreOutput"]
