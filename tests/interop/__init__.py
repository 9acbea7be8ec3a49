"""Both directions against upstream's wheel, which lives in .venv-upstream."""
