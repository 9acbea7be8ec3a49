"""XNNPACK's payload: the graph that is built, its quantized constants, its bytes."""
