#!/usr/bin/env bash
# Format and lint checks; a failed check prints the command that fixes it. Tools come from .venv-lint (.ci/setup.sh lint).
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv-lint/bin
failed=0
check() {  # check NAME COMMAND…
  local name=$1
  shift
  if "$@"; then echo "lint: $name ok"; else echo "lint: $name FAILED" >&2; failed=1; fi
}
check "clang-format (fix: make format)" bash -c "git ls-files 'csrc/*.[ch]' 'tests/*.[ch]' | xargs $bin/clang-format --dry-run --Werror"
check "ruff format (fix: make format)" $bin/ruff format --check -q executorch_py tests csrc/cmake docs/site setup.py notebooks/*.py
check "ruff check" $bin/ruff check -q executorch_py tests csrc/cmake docs/site setup.py notebooks/*.py
check "codespell" $bin/codespell -q 3 --skip '*.ipynb,./.git,./build,./.venv*' -L 'ptd,nd,te,inout,mis,aranges' csrc docs executorch_py tests README.md CONTRIBUTING.md
check "mypy" $bin/mypy -p executorch_py
check "mypy docs/site" env MYPYPATH=docs/site $bin/mypy docs/site/build_site.py
check "mypy csrc/cmake" $bin/mypy csrc/cmake/get_xnnpack.py
exit $failed
