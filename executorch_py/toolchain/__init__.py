"""Building C from what this package carries: libraries of a user's operators, and runtimes with
only the kernels that given programs need.

Calls a C compiler and reads object files; needs neither torch nor NumPy's headers.
"""
