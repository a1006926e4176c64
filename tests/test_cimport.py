"""Another Cython project can cimport the scanner of wire records."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import onnxwire

SOURCE = """
# cython: language_level=3
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from onnxwire._varint cimport (
    FAULT_VARINT_CUT, MAX_DEPTH, PACKED_64, decode_varints, explain, read_length, read_tag, skip_value, zigzag64,
)

def lengths(bytes data):
    cdef const uint8_t* p = data
    cdef const uint8_t* end = p + len(data)
    cdef uint32_t tag = 0
    cdef uint64_t n = 0
    pairs = []
    while p != NULL and p < end:
        p = read_tag(p, end, &tag)
        if p != NULL and tag & 7 == 2:
            read_length(p, end, &n)
            pairs.append((tag >> 3, n))
        if p != NULL:
            p = skip_value(p, end, tag, MAX_DEPTH)
    return pairs

def call_other_functions():
    cdef uint8_t truncated[2]
    cdef uint64_t numbers[2]
    truncated[0] = 8
    truncated[1] = 200
    decode_varints(truncated, truncated + 1, PACKED_64, numbers, 2)
    return zigzag64(3), explain(truncated, truncated + 2, MAX_DEPTH).fault == FAULT_VARINT_CUT, numbers[0]
"""


def test_a_module_that_cimports_the_scanner_compiles_and_works(tmp_path: Path) -> None:
    if sysconfig.get_config_var("CC") is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "outside.pyx").write_text(SOURCE)
    # Cython ignores the import hook of an editable install, so it needs the path of the package.
    environment = os.environ | {"PYTHONPATH": str(Path(onnxwire.__file__).parent.parent)}
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-q", "outside.pyx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=environment)
    # Field 1 is the number 1; fields 2 and 3 have the lengths 3 and 0. The varint of `truncated` has no last byte.
    code = (
        "import outside; print(outside.lengths(b'\\x08\\x01\\x12\\x03abc\\x1a\\x00'), outside.call_other_functions())"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[(2, 3), (3, 0)] (-2, True, 8)"
