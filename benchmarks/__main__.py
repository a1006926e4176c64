"""Run benchmarks and print a table: `python -m benchmarks [NAME...] [--repeats N] [--json FILE] [--markdown]`."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.measure import WorkerError, measure, rows_of
from benchmarks.table import machine, markdown_table, text_table

DEFAULT_BENCHMARKS = [
    "list_initializers",
    "index_tensors",
    "walk_nodes",
    "walk_in_c",
    "arrow_tables",
    "verify_structure",
    "check_structure",
    "large_structure",
    "packed_numbers",
    "weights_inline",
    "weights_external",
    "unpack_bits",
    "tensor_statistics",
    "import_time",
    "info_command",
    "remote",
    "rename_node",
    "unpack",
    "build_nodes",
    "existing_programs",
    "reencode",
    "catalog_models",
    "official_tools",
]
# Benchmarks that run only if they are named, because they have many rows.
OTHER_BENCHMARKS = ["message_api"]


def show_progress(text: str) -> None:
    """Overwrite the current line of stderr with a text. No-op if stderr is not a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Run the named or default benchmarks. Return the exit status: 2 if a benchmark failed, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare onnxwire with other programs.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to run: {', '.join(DEFAULT_BENCHMARKS + OTHER_BENCHMARKS)} "
        f"(default: all except {', '.join(OTHER_BENCHMARKS)})",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="number of measured processes per side and row (default: each row has its own number)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to this file")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    options = parser.parse_args()
    for name in options.names:
        if name not in DEFAULT_BENCHMARKS + OTHER_BENCHMARKS:
            parser.error(f"there is no benchmark {name}; choose {', '.join(DEFAULT_BENCHMARKS + OTHER_BENCHMARKS)}")
    results, failures = [], []
    load_before = os.getloadavg() if hasattr(os, "getloadavg") else None
    for benchmark in options.names or DEFAULT_BENCHMARKS:
        for index in range(len(rows_of(benchmark))):
            try:
                results.append(measure(benchmark, index, options.repeats, show_progress))
            except WorkerError as error:
                failures.append(str(error))
    show_progress("")
    print(markdown_table(results) if options.markdown else text_table(results))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if options.json is not None:
        report = {
            "machine": machine(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "load_before": load_before,
            "rows": [result.to_json() for result in results],
            "failures": failures,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
