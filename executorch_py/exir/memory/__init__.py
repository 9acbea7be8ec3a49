"""Memory planner, and the markers of memory in a graph under upstream's path.

Specs become requests (lifetime.py), strategies place requests (greedy.py, best_fit.py, naive.py),
planning.py chooses the best placement, and two verifiers prove it.
"""

from executorch_py.exir.ir.memory_ops import AllocSpec, alloc, concat, free, patch, view

__all__ = ["AllocSpec", "alloc", "concat", "free", "patch", "view"]
