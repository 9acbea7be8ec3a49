"""Paths in the tables of conftest.py exist: a test that was renamed would lose its place."""

from __future__ import annotations

import re

import pytest
from conftest import CHOOSING, PROCESSORS, ROOT, TOGETHER


@pytest.mark.parametrize("path", sorted(CHOOSING | TOGETHER))
def test_a_path_of_the_tables_is_a_file_of_tests(path: str) -> None:
    assert (ROOT / path).is_file()


def test_processors_of_the_c_tests_are_those_that_the_c_side_knows() -> None:
    for file in ("processor.c", "test_xnnpack_processors.c"):
        text = (ROOT / "tests/c" / file).read_text()
        table = text.partition("processors[] = {")[2].partition("};")[0]
        assert re.findall(r'"(\w+)"', table) == list(PROCESSORS)
