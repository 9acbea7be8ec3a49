"""Upstream's package of edge operators; see dialects/edge_ops.py."""
