"""Passes from the decomposed ATen graph to the edge dialect; steps.py is their order."""
