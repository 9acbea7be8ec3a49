#!/bin/sh
# Prints the code size of the core runtime (csrc/runtime without the hosted platform_*.c; no kernels, no backends) at -Os,
# per file and in total, for x86-64 and Cortex-M4, with full messages and with codes only. The last line is the larger
# codes-only total, which must not exceed 20 KiB. Unwind tables are left out, as embedded builds leave them out, and gcc's
# passes that grow x86-64 code here (measured one by one) are off.
set -eu
cd "$(dirname "$0")/.."
LIMIT=20480
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
largest=0

measure() { # name, messages, compiler, size tool, flags…
  name=$1 messages=$2 cc=$3 size=$4
  shift 4
  if ! command -v "$cc" > /dev/null; then
    echo "size: $cc not found; Debian: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi" >&2
    exit 1
  fi
  rm -f "$out"/*.o
  for source in csrc/runtime/*.c; do
    case $source in */platform_*) continue ;; esac
    "$cc" -std=c11 -Os -ffp-contract=off -fno-asynchronous-unwind-tables -DET_MESSAGES="$messages" "$@" -Icsrc -c "$source" \
      -o "$out/$(basename "$source" .c).o"
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
  done | tee "$out/table"
  total=$(awk '{ t += $2; r += $3; d += $4; b += $5 }
    END { printf "%-16s %8d %8d %8d %8d\n", "total", t, r, d, b > "/dev/stderr"; print t + r + d }' "$out/table" 2> "$out/line")
  cat "$out/line"
  echo "text + rodata + data: $total bytes"
  echo
  if [ "$messages" = 0 ] && [ "$total" -gt "$largest" ]; then largest=$total; fi
}

for messages in 1 0; do
  measure x86-64 $messages "${CC:-gcc}" size -fno-pie -fcf-protection=none -fno-stack-protector \
    -fno-jump-tables -fno-tree-dominator-opts -fno-tree-coalesce-vars -fno-move-loop-invariants -fno-caller-saves -fno-shrink-wrap
  measure Cortex-M4 $messages arm-none-eabi-gcc arm-none-eabi-size -mcpu=cortex-m4 -mthumb
done
echo "core runtime, codes only, larger of the two targets: $largest bytes of $LIMIT"
[ "$largest" -le "$LIMIT" ]
