"""Small backends and partitioners for tests and examples."""
