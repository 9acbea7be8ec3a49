"""Tools for finished programs, at upstream's path."""
