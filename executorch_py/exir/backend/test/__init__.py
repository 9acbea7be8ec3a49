"""The demonstration backend and partitioner that upstream's tutorials import from this path."""
