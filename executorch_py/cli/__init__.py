"""The command line `executorch_py`: run, inspect, doctor, builds. Needs NumPy only."""
