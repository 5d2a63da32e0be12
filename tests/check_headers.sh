#!/usr/bin/env bash
# Public headers are clean in every C and C++ that a program may be written in; every internal header stands alone.
# Usage: check_headers.sh ROOT CC CXX
set -euo pipefail
cd "$1"
cc=$2 cxx=$3
passed=0 failed=0

compile() { # NAME SOURCE COMPILER FLAGS...
  local name=$1 source=$2 out
  shift 2
  if out=$(printf '%b' "$source" | "$@" -I include -I . -fsyntax-only - 2>&1); then
    passed=$((passed + 1))
  else
    echo "$name: $out"
    failed=$((failed + 1))
  fi
}

strict=(-pedantic-errors -Wall -Wextra -Wconversion -Wshadow -Wundef -Werror)
use='extern dlk_params params;\ndlk_params params;\nint main(void) { params.size = sizeof params; return params.size ? DLK_OK : DLK_ERR_INVALID; }\n'
for standard in c99 c11 c17; do
  compile "dlk.h as $standard" "#include <dlk/dlk.h>\n#include <dlk/dlk.h>\n$use" \
    "$cc" -x c -std=$standard "${strict[@]}" -Wstrict-prototypes
  compile "dlpack.h as $standard" '#include <dlk/dlpack.h>\nextern DLTensor t;\n' "$cc" -x c -std=$standard "${strict[@]}"
done
for standard in c++11 c++17 c++20; do
  compile "dlk.h as $standard" "#include <dlk/dlk.h>\n#include <dlk/dlk.h>\n$use" \
    "$cxx" -x c++ -std=$standard "${strict[@]}" -Wold-style-cast -Wzero-as-null-pointer-constant
  compile "dlpack.h as $standard" '#include <dlk/dlpack.h>\nextern DLTensor t;\n' "$cxx" -x c++ -std=$standard "${strict[@]}"
done
for header in base/*.h codegen/*.h kernels/*.h runtime/*.h; do
  [ -e "$header" ] || continue
  compile "$header alone" "#include \"$header\"\n#include \"$header\"\n" \
    "$cc" -x c -std=gnu11 -Wall -Wextra -Wstrict-prototypes -Wno-unused-function -Werror
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
