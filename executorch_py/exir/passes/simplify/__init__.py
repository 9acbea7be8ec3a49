"""Passes that compute at export, merge or drop calls: folding, algebra, dead code."""
