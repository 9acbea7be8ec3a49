"""Folders of the checkout that tests read: its root, golden files, upstream's Python."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"
SUPPORT = TESTS / "support"
UPSTREAM_PYTHON = ROOT / ".venv-upstream" / "bin" / "python"
