"""Parts for language models: operators over key/value caches, for export and for the C runtime."""
