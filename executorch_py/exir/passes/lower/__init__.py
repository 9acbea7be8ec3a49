"""Passes from the edge dialect to out variants with specs, ready for memory planning."""
