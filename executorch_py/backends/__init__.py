"""Backends ahead of time: one package each, with its partitioner and its preprocessing."""
