#!/usr/bin/env bash
# The checks of the sources find what they are there for: each case is a small tree with one rule broken, or none.
# Usage: check_finds.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0
check=check_layers.sh

expect() { # good|bad FILE TEXT
  rm -rf "$folder/tree"
  mkdir -p "$folder/tree/$(dirname "$2")"
  printf '%b\n' "$3" >"$folder/tree/$2"
  local found=good
  bash "$here/$check" "$folder/tree" >"$folder/out" 2>&1 || found=bad
  if [ $found = "$1" ]; then
    passed=$((passed + 1))
  else
    echo "expected $1: $2: $3"
    cat "$folder/out"
    failed=$((failed + 1))
  fi
}

expect good base/x.c '#include "base/x.h"\n#include "dlk/dlk.h"\n#include <stdio.h>'
expect bad base/x.c '#include "codegen/ir.h"'
expect bad base/x.c '#  include  "runtime/cache.h"'
expect bad base/x.h '#include "x.h"'
expect bad codegen/x.def '#include "kernels/plan.h"'
expect bad codegen/x.c '#include "runtime/cache.h"'
expect good runtime/x.c '#include "kernels/plan.h"\n#include "codegen/ir.h"'
expect bad kernels/x.c '#include <llvm-c/Core.h>'
expect bad runtime/code.c '#include <llvm-c/Core.h>'
expect good runtime/llvm_module.c '#include <llvm-c/Core.h>'
expect bad runtime/backend_cpu.c '#include "runtime/backend_interp.h"'
expect good runtime/backend_cpu.c '#include "runtime/backend_cpu.h"\n#include "runtime/backend.h"'
expect bad runtime/backend_cpu.c '#include "kernels/registry.h"'
expect bad runtime/x.c '#include "tools/x.h"'
expect bad tools/x.c '#include "base/os.h"'
expect good tools/x.c '#include "dlk/dlk.h"\n#include "tools/json.h"\n#include <stdio.h>\nint main(void) { puts("x"); }'
expect bad python/x.c '#include "kernels/plan.h"'
expect bad kernels/x.c 'void *f(void) { return malloc(3); }'
expect bad kernels/x.c 'void f(void *p) { free(p); }'
expect good kernels/x.c 'void f(void *p) { dlk_free(p); /* not free(p) */ }'
expect good base/alloc.c 'void f(void *p) { free(p); }'
expect bad kernels/x.c 'void f(void) { printf("x"); }'
expect bad kernels/x.c 'void f(void) { fprintf(stderr, "x"); }'
expect bad kernels/x.c 'void f(void) { exit(1); }'
expect good kernels/x.c 'int f(char *b) { return snprintf(b, 3, "x"); }'
expect bad codegen/x.h 'typedef const DLTensor *t;'

check=check_style.sh
lines() { printf 'x;\\n%.0s' $(seq "$1"); }
expect good base/x.c '/* Why. */\nint x;'
expect bad base/x.c 'int x; /* Why. */'
expect good base/x.c "/* Why. */\nvoid f(void)\n{\n$(lines 80)}"
expect bad base/x.c "/* Why. */\nvoid f(void)\n{\n$(lines 81)}"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
