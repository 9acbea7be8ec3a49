"""Paths in the tables of conftest.py exist: a test that was renamed would lose its place."""

from __future__ import annotations

import pytest
from conftest import CHOOSING, PROCESSORS, ROOT, TOGETHER


@pytest.mark.parametrize("path", sorted(CHOOSING | TOGETHER))
def test_a_path_of_the_tables_is_a_file_of_tests(path: str) -> None:
    assert (ROOT / path).is_file()


def test_processors_of_the_c_tests_are_those_that_the_c_side_knows() -> None:
    table = (ROOT / "tests/c/processor.c").read_text()
    assert all(f'{{"{name}", ' in table for name in PROCESSORS)
