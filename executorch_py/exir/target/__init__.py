"""Limits of a target runtime: kernel manifests and the rules for argument values."""
