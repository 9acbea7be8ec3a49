"""Upstream's module paths for the runtime's older Python interface."""
