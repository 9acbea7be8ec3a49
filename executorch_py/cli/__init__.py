"""The command line `executorch_py`: run, inspect, doctor. Needs NumPy only."""
