#!/bin/sh
# Runs headers.c on this processor, and on others under qemu, where the compiler and qemu-user are installed.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/processors
for processor in "$(uname -m)" aarch64 s390x; do
    program=build/processors/$processor
    if [ "$processor" = "$(uname -m)" ]; then
        compiler=${CC:-cc} emulator=
    else
        compiler=$processor-linux-gnu-gcc emulator=$(command -v "qemu-$processor-static" "qemu-$processor" | head -n 1 || true)
        if ! command -v "$compiler" > /dev/null || [ -z "$emulator" ]; then
            echo "$processor: skipped; install gcc-$processor-linux-gnu and qemu-user-static (names of Debian) to run it"
            continue
        fi
    fi
    # Linked as a whole, so that qemu needs no libraries of the other processor.
    $compiler -static -O3 -Wall -Wextra -Werror -o "$program" tests/processors/headers.c
    echo "$processor: $($emulator "$program")"
done
