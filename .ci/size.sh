#!/bin/sh
# Prints the code size of the core runtime (csrc/runtime without the hosted platform_*.c; no kernels, no backends) at -Os,
# per file and in total, for x86-64 and Cortex-M4, with full messages and with codes only. The last line is the larger
# codes-only total, which must not exceed 20 KiB. Flags beside -Os are those that embedded builds use: a section for each
# function (so that unused ones can be dropped; here all are counted) and no unwind tables.
set -eu
cd "$(dirname "$0")/.."
LIMIT=20480
ARM=arm-none-eabi-gcc
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
largest=0

if ! command -v "$ARM" > /dev/null; then
  hint="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi"
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "size: $ARM not found; installing it: $hint"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends ${hint#apt-get install }; } > "$out/apt.log" 2>&1 ||
      { cat "$out/apt.log" >&2; echo "size: could not install $ARM" >&2; exit 1; }
  else
    echo "size: $ARM not found; Debian and Ubuntu, as root: $hint" >&2
    exit 1
  fi
fi

measure() { # name, messages, compiler, size tool, flags…
  name=$1 messages=$2 cc=$3 size=$4
  shift 4
  rm -f "$out"/*.o
  for source in csrc/runtime/*.c; do
    case $source in */platform_*) continue ;; esac
    "$cc" -std=c11 -Os -ffp-contract=off -ffunction-sections -fno-asynchronous-unwind-tables -DET_MESSAGES="$messages" "$@" \
      -Icsrc -c "$source" -o "$out/$(basename "$source" .c).o"
  done
  if [ "$messages" = 1 ]; then echo "== $name, full messages"; else echo "== $name, codes only"; fi
  printf '%-16s %8s %8s %8s %8s\n' file text rodata data bss
  for object in "$out"/*.o; do
    "$size" -A "$object" | awk -v file="$(basename "$object" .o)" '
      $1 ~ /^\.text/ { text += $2 }
      $1 ~ /^\.rodata/ { rodata += $2 }
      $1 ~ /^\.data/ { data += $2 }
      $1 ~ /^\.bss/ { bss += $2 }
      END { printf "%-16s %8d %8d %8d %8d\n", file, text, rodata, data, bss }'
  done > "$out/table"
  cat "$out/table"
  awk '{ t += $2; r += $3; d += $4; b += $5 } END { printf "%-16s %8d %8d %8d %8d\n", "total", t, r, d, b }' "$out/table"
  total=$(awk '{ sum += $2 + $3 + $4 } END { print sum }' "$out/table")
  echo "text + rodata + data: $total bytes"
  echo
  if [ "$messages" = 1 ]; then return; fi
  if [ "$total" -gt "$largest" ]; then largest=$total; fi
  totals="${totals:+$totals, }$name $total"
}

totals=
for messages in 1 0; do
  measure x86-64 $messages "${CC:-gcc}" size
  measure Cortex-M4 $messages "$ARM" arm-none-eabi-size -mcpu=cortex-m4 -mthumb
done
echo "core runtime, codes only: $totals bytes of $LIMIT"
[ "$largest" -le "$LIMIT" ]
