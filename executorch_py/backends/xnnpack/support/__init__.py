"""Facts about nodes and the operators, types and shapes that XNNPACK computes."""
