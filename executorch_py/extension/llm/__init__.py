"""Operators of language models: attention over key/value caches, for export and the C runtime."""
