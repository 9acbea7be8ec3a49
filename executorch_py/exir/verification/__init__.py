"""Upstream's package of verifiers; see dialects/verifier.py."""
