"""Partitioners that upstream's scripts use, and functions that group nodes into partitions."""
