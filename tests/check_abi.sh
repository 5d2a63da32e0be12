#!/usr/bin/env bash
# libdlk.so exports exactly the names of tests/abi.txt, and needs no library beyond the C library.
# After a deliberate change of dlk.h: check_abi.sh BUILD --update
# Usage: check_abi.sh BUILD
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=$1/libdlk.so
passed=0 failed=0

check() { # NAME FOUND (empty is right)
  if [ -z "$2" ]; then
    passed=$((passed + 1))
  else
    echo "$1: $2"
    failed=$((failed + 1))
  fi
}

exported() {
  nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | LC_ALL=C sort
}

if [ "${2:-}" = --update ]; then
  exported >"$here/abi.txt"
fi
sanitized=$(nm -D --undefined-only "$library" | grep -cE '__(asan|tsan)_' || true)
check "not what tests/abi.txt lists (< missing, > new)" "$(diff <(cat "$here/abi.txt") <(exported) | grep '^[<>]' || true)"
check "names that nothing defines" "$(nm -D --undefined-only "$library" | grep -o 'dlk_.*' || true)"
check "names without the prefix dlk_ between files" \
  "$(nm -g --defined-only "$1/libdlk_objects.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^(dlk_|__(odr_)?asan|_?_?start|_?_?stop)/ {print $3}')"
[ "$sanitized" != 0 ] || check "libraries needed at load time" \
  "$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|ld-linux.*)\.so' || true)"
check "soname" "$(readelf -d "$library" | grep SONAME | grep -v '\[libdlk.so.0\]' || true)"
check "stack that is executable" "$(readelf -lW "$library" | grep GNU_STACK | grep RWE || true)"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
