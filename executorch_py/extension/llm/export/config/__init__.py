"""Configuration of `export_llm`, with upstream's names."""
