"""Builds of C code: libraries of a user's operators, and runtimes with selected kernels only.

The package contains the C sources. The code here calls a C compiler and reads object files; it
needs neither torch nor NumPy's headers.
"""
