"""Passes over exported programs that several backends use."""
