"""Passes over quantized programs: integer operators, dynamic scales, weights, I/O."""
