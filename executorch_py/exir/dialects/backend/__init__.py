"""Upstream's package of backend operators; see dialects/edge_ops.py."""
