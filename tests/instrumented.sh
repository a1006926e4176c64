#!/bin/sh
# Build the extension modules in a copy of the tree, in build/KIND, and run Python with them:
# `instrumented.sh KIND PYTHON ARGUMENTS`. The kinds:
#   sanitize   ASan and UBSan, by gcc, with small limits (`onnxwire/engine/thresholds.h`)
#   coverage   ASan and UBSan, by clang, with small limits and edge counters for libFuzzer (the package atheris)
#   threads    ThreadSanitizer, by gcc, with small limits
#   trace      each line is reported to sys.settrace
# Leak detection is off, since the interpreter does not free all memory at exit. Allocations that are too large fail as
# without a sanitizer. Run pytest with --capture=sys, so that reports of the sanitizers on stderr are visible.
set -eu
kind=$1
python=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/build/$kind
mkdir -p "$target"
find "$target" -type f ! -name '*.so' ! -name '*.c' ! -path '*/build/*' -delete
(cd "$root" && tar cf - --exclude='*.so' --exclude='onnxwire/*.c' onnxwire schema tests examples docs tools setup.py pyproject.toml \
    README.md CHANGELOG.md CONTRIBUTING.md DESIGN.md LICENSE) | (cd "$target" && tar xf -)
cd "$target"
preload=
case $kind in
sanitize)
    export ONNXWIRE_SANITIZE=1
    preload=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
    ;;
threads)
    export ONNXWIRE_SANITIZE=thread
    if "$python" -c 'import sys, sysconfig; sys.exit("thread-sanitizer" not in sysconfig.get_config_var("CONFIG_ARGS"))'
    then
        # This Python is built with ThreadSanitizer by clang, as it must be without the GIL, and contains the library.
        export CC="${CLANG:-clang}"
    else
        preload=$(gcc -print-file-name=libtsan.so)
    fi
    ;;
coverage)
    export ONNXWIRE_SANITIZE=coverage CC="${CLANG:-clang}"
    preload=$("$python" -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so
    ;;
trace)
    export ONNXWIRE_TRACE=1
    ;;
esac
"$python" setup.py -q build_ext --inplace
# PYTHONMALLOC=malloc, since Python's allocator hides overruns inside its arenas.
LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_abort=1 \
    UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1 \
    PYTHONMALLOC=malloc PYTHONPATH=$target${PYTHONPATH:+:$PYTHONPATH} \
    exec "$python" "$@"
