"""The runtime's older Python interface, at upstream's module paths."""
