"""Decompositions: ATen operators outside the core set as core operators, a family a file."""
