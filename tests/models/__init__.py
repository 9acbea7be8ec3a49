"""Models that tests and benchmarks share: torchvision's, transformers', and a few small ones."""
