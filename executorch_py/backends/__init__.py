"""Ahead-of-time parts of backends: a package each, with partitioner and preprocessing."""
