"""Helpers that example scripts export with."""
