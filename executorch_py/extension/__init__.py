"""Modules at upstream's paths, most of which re-export names of this package."""
