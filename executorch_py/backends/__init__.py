"""Backends ahead of time: one package each, with partitioner and preprocessing."""
