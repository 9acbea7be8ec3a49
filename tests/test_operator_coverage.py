"""The generated page of operators: complete, with a reason for each operator that does not run."""

from __future__ import annotations

from kernels import operator_coverage


def test_every_core_overload_of_torch_runs_or_has_a_reason() -> None:
    assert operator_coverage.remaining() == []


def test_every_kernel_is_named_by_a_test() -> None:
    untested = [kernel.name for kernel in operator_coverage.kernels() if not kernel.tests]
    assert untested == []


def test_every_kernel_has_rows_in_the_table_or_a_reason() -> None:
    kernels = operator_coverage.kernels()
    without = [kernel.name for kernel in kernels if kernel.tabled.rows == 0]
    assert [name for name in without if not operator_coverage.reason_without_rows(name)] == []
    unknown = set(operator_coverage.table()) - {kernel.name for kernel in kernels}
    assert unknown == set()


def test_the_page_lists_kernels_and_core_overloads() -> None:
    page = operator_coverage.page()
    assert "| `aten::add.out` | u8 i8 i16" in page
    assert "contiguous, channels last, other dim orders, changing sizes" in page
    assert "| `aten.scatter_reduce.two` | kernel |" in page
    assert "| `aten.resize_.default` | functional form: decomposed by the exporter |" in page
