"""Small backends and partitioners that tests and examples lower to."""
