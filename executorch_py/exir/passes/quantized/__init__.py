"""Passes over dequantize-compute-quantize patterns: integer operators, scales, I/O."""
