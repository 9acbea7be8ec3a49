"""Passes over a partition: the pipeline is pipeline.py, each rewrite a file of its own."""
