"""Data files (.ptd) at upstream's path; see serialize.py."""
