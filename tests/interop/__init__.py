"""Interoperation with upstream's wheel (in .venv-upstream), in both directions."""
