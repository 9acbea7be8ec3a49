"""Decompositions: ATen operators outside the core set as core operators, one file per family."""
