"""Passes that avoid copies: views, slices, buffers and results that share memory."""
