"""Benchmark scripts that report ratios of speeds within one run. They are not tests."""
