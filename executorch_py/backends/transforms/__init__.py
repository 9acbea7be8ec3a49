"""Passes over torch.export programs that several backends use."""
