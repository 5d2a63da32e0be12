#!/usr/bin/env bash
# Checks what clang-format does not: every C file says at its top why it exists, and no function is longer than 80 lines.
# Each file is one case. Usage: check_style.sh ROOT
set -euo pipefail
cd "$1"
passed=0 failed=0

check_file() { # FILE
  local wrong
  wrong=$(awk -v most=80 '
    NR == 1 && !/^\/\* / { print FILENAME ": expected a comment that says why the file exists" }
    /^[{]$/ { start = NR }
    /^[}]$/ && start { if (NR - start - 1 > most) print FILENAME ":" start ": a function of " NR - start - 1 " lines; expected at most " most; start = 0 }
  ' "$1")
  if [ -z "$wrong" ]; then
    passed=$((passed + 1))
  else
    echo "$wrong"
    failed=$((failed + 1))
  fi
}

while read -r file; do
  check_file "$file"
done < <(find include base codegen kernels runtime tools python tests examples bench -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) 2>/dev/null | sort)
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
