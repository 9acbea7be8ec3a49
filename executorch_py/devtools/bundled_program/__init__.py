"""Bundled programs (.bpte): a program with test cases of inputs and expected outputs."""
