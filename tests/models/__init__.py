"""Real models that tests and benchmarks share:

definitions from torchvision and transformers, and a few small ones.
"""
