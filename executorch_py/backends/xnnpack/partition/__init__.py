"""Partitioners with upstream's names; see xnnpack_partitioner.py."""
