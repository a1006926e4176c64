#!/bin/sh
# Run headers.c and the programs of tests/c_reader on this processor, and on others if their compiler is installed: on
# aarch64 and s390x under qemu-user, and on i686 directly and without headers.c. Compile onnxwire.h for WebAssembly if
# clang is installed.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/processors
warnings='-Wall -Wextra -Werror'
strict='-std=c99 -Wpedantic -Wconversion -Wshadow'
echo '#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"' > build/processors/reader.c
files=$(find tests/c_reader/corpus tests/corpus/decode examples -type f -size -200k ! -name '*.c' ! -name '*.md' ! -name '*.py' | LC_ALL=C sort)
for processor in "$(uname -m)" i686 aarch64 s390x; do
    program=build/processors/$processor
    emulator=
    if [ "$processor" = "$(uname -m)" ]; then
        compiler=${CC:-cc}
    elif [ "$processor" = i686 ] && [ "$(uname -m)" = x86_64 ]; then
        compiler="${CC:-cc} -m32"
        if ! echo 'int main(void) { return 0; }' | $compiler -static -x c - -o "$program" 2> /dev/null; then
            echo "$processor: skipped; install gcc-multilib (name of Debian) to run it"
            continue
        fi
    else
        compiler=$processor-linux-gnu-gcc emulator=$(command -v "qemu-$processor-static" "qemu-$processor" | head -n 1 || true)
        if ! command -v "$compiler" > /dev/null || [ -z "$emulator" ]; then
            echo "$processor: skipped; install gcc-$processor-linux-gnu and qemu-user-static (names of Debian) to run it"
            continue
        fi
    fi
    # Linked statically, so that qemu needs no libraries of the other processor.
    if [ "$processor" != i686 ]; then
        $compiler -static -O3 $warnings -o "$program" tests/processors/headers.c
        echo "$processor: $($emulator "$program")"
    fi
    $compiler -c -Os $warnings $strict -Ionnxwire/include -o "$program-reader.o" build/processors/reader.c
    $compiler -static -O2 $warnings -std=c99 -Ionnxwire/include -o "$program-hostile" tests/c_reader/hostile.c
    echo "$processor: onnxwire.h: $($emulator "$program-hostile")"
    $compiler -static -O2 $warnings -std=c99 -Ionnxwire/include -o "$program-digests" tests/c_reader/digests.c
    $emulator "$program-digests" $files > "$program-digests.txt"
    cmp "$program-digests.txt" "build/processors/$(uname -m)-digests.txt"
    echo "$processor: onnxwire.h: $(wc -l < "$program-digests.txt") files are read with the same results"
done
if command -v "${CLANG:-clang}" > /dev/null; then
    "${CLANG:-clang}" --target=wasm32 -ffreestanding -c -Os $warnings $strict -Ionnxwire/include \
        -o build/processors/wasm32-reader.o build/processors/reader.c
    echo "wasm32: onnxwire.h compiles"
fi
