"""Partitioners: selection of nodes, regions of the graph, and preparation for both."""
