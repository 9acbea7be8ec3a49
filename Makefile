# The project's commands. `make demo` and `make test` need nothing but Python 3.11, gcc and a network to apt and PyPI.
SHELL := /bin/bash
PY := .venv/bin/python
PYTEST_ARGS ?= -n auto --dist loadgroup

.PHONY: help demo test lint format size bench bench-model sanitize coverage docs clean

help:
	@echo "make demo      export a real sentence encoder, run it on the C runtime, show numbers and a similarity table"
	@echo "make test      all tests (C and Python), interop with upstream included"
	@echo "make lint      formatting, ruff, mypy, codespell"
	@echo "make size      code size of the core runtime, x86-64 and Cortex-M"
	@echo "make bench     speed, as ratios to upstream, eager torch and other runtimes in one run"
	@echo "make bench-model  cycles per multiply-add of hot loops, by llvm-mca (ARGS=\"gemm --hottest\")"
	@echo "make sanitize  C tests under ASan+UBSan and TSan"
	@echo "make docs      the static site: pages, API reference, operator table, notebooks (build/docs/site/index.html)"
	@echo "make coverage  lines of the C runtime that the C tests run, per file"

demo:
	@.ci/setup.sh demo
	@$(PY) notebooks/demo_minilm.py

test:
	@.ci/setup.sh test
	@$(PY) -m pytest $(PYTEST_ARGS)

lint:
	@.ci/setup.sh lint
	@.ci/lint.sh

format:
	@.ci/setup.sh lint
	@.venv-lint/bin/ruff format executorch_py tests csrc/cmake docs/site setup.py notebooks/*.py
	@.venv-lint/bin/ruff check --fix executorch_py tests csrc/cmake docs/site setup.py notebooks/*.py
	@git ls-files 'csrc/*.[ch]' 'tests/*.[ch]' | xargs .venv-lint/bin/clang-format -i

size:
	@.ci/size.sh

bench:
	@.ci/setup.sh bench
	@$(PY) tests/bench/run.py

bench-model:
	@.ci/setup.sh test
	@$(PY) tests/bench/bench_model.py $(ARGS)

sanitize:
	@.ci/setup.sh test
	@for preset in asan-ubsan tsan; do ET_TEST_PRESET=$$preset $(PY) -m pytest tests/c -q || exit 1; done

coverage:
	@.ci/setup.sh test
	@.ci/coverage.sh

docs:
	@.ci/setup.sh docs
	@$(PY) docs/site/build_site.py

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache executorch_py/_C*.so
