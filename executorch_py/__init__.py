"""Export PyTorch models to .pte files and run those files.

`executorch_py.runtime` runs programs and needs NumPy only; `executorch_py.exir` exports and needs
torch. Importing this package loads neither.
"""

__version__ = "0.1.0"
