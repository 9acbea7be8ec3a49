"""Bounds of comparisons are written in support/tolerance.py, once each."""

from __future__ import annotations

import re

from support.tree import python_files, text

# Files that name rtol or atol, each with its reason.
NAMES_BOUNDS = {
    "tests/support/tolerance.py": "the tolerances, and the comparison that uses them",
    "tests/testing/test_parity.py": "they are arguments of `verify`, which these tests give",
    "tests/testing/test_not_finite.py": "likewise an argument of `verify`",
    "tests/testing/test_rounded_products.py": "likewise",
    "tests/testing/test_winograd_layers.py": "likewise",
    "tests/test_tolerances.py": "this file",
}


def test_bounds_are_named_where_the_tolerances_are() -> None:
    found = {path for path in python_files("tests/") if re.search(r"\b[ra]tol\b", text(path))}
    assert found <= NAMES_BOUNDS.keys(), "expected a tolerance of tests/support/tolerance.py"
    assert found == NAMES_BOUNDS.keys()


def test_every_tolerance_is_used() -> None:
    names = re.findall(r"^([A-Z][A-Z0-9_]+) =", text("tests/support/tolerance.py"), flags=re.M)
    users = "".join(text(path) for path in python_files("tests/") if "tolerance.py" not in path)
    assert not [name for name in names if not re.search(rf"\b{name}\b", users)]
