"""Upstream's path to reading and writing data files; see serialize.py."""
