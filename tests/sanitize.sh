#!/bin/sh
# Builds the extension modules with ASan, UBSan and small limits (`onnxwire/engine/thresholds.h`) in a copy of the tree,
# and runs Python on them: `make sanitize` all tests, `make fuzz-sanitized` what comes after the interpreter's name.
# Leaks are not looked for: the interpreter itself keeps memory at its end. What is too large for memory is refused as it
# is without them. Their reports go where pytest does not catch them.
set -eu
python=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/build/sanitize
mkdir -p "$target"
find "$target" -type f ! -name '*.so' ! -name '*.c' ! -path '*/build/temp*' -delete
(cd "$root" && tar cf - --exclude='*.so' --exclude='*.c' onnxwire schema tests examples docs setup.py pyproject.toml \
    README.md CHANGELOG.md CONTRIBUTING.md DESIGN.md LICENSE) | (cd "$target" && tar xf -)
cd "$target"
ONNXWIRE_SANITIZE=1 "$python" setup.py -q build_ext --inplace
preload=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
if [ $# = 0 ]; then
    set -- -m pytest -x --capture=sys -k 'not typing and not listing_the_tensors and not catalog' tests
fi
# Python's own allocator hides overruns inside its arenas.
LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
    PYTHONMALLOC=malloc PYTHONPATH=$target exec "$python" "$@"
