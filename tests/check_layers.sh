#!/usr/bin/env bash
# Checks the house rules that no compiler knows, over the sources below ROOT:
#   the include rule  include <- base <- codegen <- kernels <- runtime <- tools, python, examples, bench
#   one door each     the heap in base/alloc.c, the terminal in base/log.c and runtime/dump.c, LLVM in runtime/llvm_module.c
# Each file is one case. Usage: check_layers.sh ROOT
set -euo pipefail
cd "$1"
command -v gcc >/dev/null || { echo "needs gcc, which strips comments"; exit 1; }
declare -A rank=([dlk]=0 [include]=0 [base]=1 [codegen]=2 [kernels]=3 [runtime]=4)
passed=0 failed=0
wrong=0

complain() { # FILE TEXT
  echo "$1: $2"
  wrong=1
}

# The file without comments, for checks of what it calls.
code_of() {
  gcc -fpreprocessed -dD -E -P -x c "$1" 2>/dev/null
}

includes_of() {
  sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*([<"][^>"]+).*/\1/p' "$1"
}

# Inside the library: an include of the project names a folder at or below the file's own layer.
check_include() { # FILE LAYER INCLUDE
  local name=${3:1} top=${3:1}
  top=${top%%/*}
  if [[ $name == */* && -n ${rank[$top]:-} ]]; then
    [ "${rank[$top]}" -le "${rank[$2]}" ] || complain "$1" "$2 may not include $name"
  elif [[ $name == llvm-c/* || $name == llvm/* ]]; then
    [ "$1" = runtime/llvm_module.c ] || complain "$1" "only runtime/llvm_module.c may include $name"
  elif [[ $3 == '"'* ]]; then
    complain "$1" "\"$name\" is not of the project, or not named from its root"
  fi
  if [[ $1 == runtime/backend_* && ($name == runtime/backend_* || $name == kernels/registry.h) ]]; then
    [ "${name%.h}" = "${1%.*}" ] || complain "$1" "a backend may not know $name"
  fi
}

# Outside: only the public header and the folder's own.
check_include_of_user() { # FILE FOLDER INCLUDE
  local name=${3:1}
  case $name in
    dlk/dlk.h | dlk/dlpack.h | "$2"/*) ;;
    *) [[ $3 != '"'* && ! -e $name ]] || complain "$1" "$2 may include dlk/dlk.h and its own headers, not $name" ;;
  esac
}

check_calls() { # FILE LAYER
  local code found
  code=$(code_of "$1")
  # libdlk-llvm is a library of its own, which shares nothing with libdlk.
  if [[ $1 != base/alloc.c && $1 != runtime/llvm_module.c ]]; then
    found=$(grep -oE '\b(malloc|calloc|realloc|free|strdup|strndup|asprintf|vasprintf|aligned_alloc|posix_memalign|alloca)[[:space:]]*\(' <<<"$code" || true)
    [ -z "$found" ] || complain "$1" "the heap is base/alloc.h's; found ${found//$'\n'/, }"
  fi
  if [[ $1 != base/log.c && $1 != runtime/dump.c ]]; then
    found=$(grep -oE '\b(stdout\b|stderr\b|(printf|vprintf|puts|putchar|perror|abort|exit|_exit|_Exit|quick_exit)[[:space:]]*\()' <<<"$code" || true)
    [ -z "$found" ] || complain "$1" "the library neither prints nor exits; found ${found//$'\n'/, }"
  fi
  if [ "$2" = codegen ] && found=$(grep -owE 'DL(Tensor|ManagedTensor[A-Za-z]*|Device)' <<<"$code"); then
    complain "$1" "codegen knows no tensors and devices; found ${found//$'\n'/, }"
  fi
}

check_file() { # FILE
  local folder=${1%%/*} include
  wrong=0
  while read -r include; do
    if [ -n "${rank[$folder]:-}" ]; then
      check_include "$1" "$folder" "$include"
    else
      check_include_of_user "$1" "$folder" "$include"
    fi
  done < <(includes_of "$1")
  [ -z "${rank[$folder]:-}" ] || check_calls "$1" "$folder"
  if [ $wrong = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

while read -r file; do
  check_file "$file"
done < <(find include base codegen kernels runtime tools python examples bench -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.def' \) 2>/dev/null | sort)
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
