"""Configurations for lowering, which scripts import from configs.py."""
