"""Passes that save copies: views, slices, buffers and results that share memory."""
