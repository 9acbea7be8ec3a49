"""Upstream's path to tools around finished programs."""
