"""Upstream's module paths; each re-exports what lives elsewhere in this package."""
