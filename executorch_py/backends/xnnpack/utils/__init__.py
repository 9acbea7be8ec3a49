"""Configurations that scripts import; see configs.py."""
