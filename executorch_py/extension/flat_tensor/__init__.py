"""Data files (.ptd) under upstream's paths; the code is in exir/serialize/ptd.py."""
