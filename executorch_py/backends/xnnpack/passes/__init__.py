"""Passes over a partition, one per file; pipeline.py has their order."""
