#!/bin/sh
# Prints the line coverage of csrc/runtime, per file and in total, by the C tests and the replayed fuzz inputs.
# Needs gcov, which comes with gcc. The last line is the total without platform_*.c, whose failures are the system's;
# less than 95 % of it is a failure.
set -eu
cd "$(dirname "$0")/.."
PY=${PY:-.venv/bin/python}
find build/coverage -name '*.gcda' -delete 2> /dev/null || true
ET_TEST_PRESET=coverage "$PY" -m pytest tests/c -q
build/coverage/fuzz_program --flips 300 tests/golden/*.pt[ed] > /dev/null
cd build/coverage/CMakeFiles/et_runtime.dir/runtime
gcov -n -- *.gcda 2> /dev/null | awk -F"[':% ]+" '
  /^File/ { n = split($2, part, "/"); file = part[n]; wanted = $2 ~ /runtime\/[a-z_]*\.c$/ }
  /^Lines/ && wanted {
    split($0, word, /[:% ]+/); percent = word[3]; lines = word[5]; wanted = 0
    printf "%-26s %6.2f %% of %4d lines\n", file, percent, lines
    if (file !~ /^platform_/) { all += lines; run += lines * percent / 100 }
  }
  END {
    printf "%-26s %6.2f %% of %4d lines\n", "total", 100 * run / all, all
    exit 100 * run / all < 95
  }'
