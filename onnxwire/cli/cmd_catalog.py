"""`onnxwire catalog`: the tables of many models as a Parquet data set."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from onnxwire.cli.options import add_command, add_progress, make_number_parser
from onnxwire.cli.progress import progress_bar
from onnxwire.cli.terminal import safe_text
from onnxwire.errors import count_text

_DESCRIPTION = """\
Read any number of models into a catalog: a folder of Parquet files to query with `onnxwire sql`, DuckDB or polars.
The tables are models, operators, tensors, values, metadata, problems (with --check) and failures. Unchanged models are
not read again, and the next run continues an interrupted one.
"""
_EXAMPLES = """\
examples:
  onnxwire catalog models/ -o catalog
  onnxwire catalog 'zoo/**/*.onnx' extra.onnx -o catalog --hash --check
  onnxwire catalog models/ -o catalog --prune            remove entries of models whose files no longer exist
  onnxwire catalog s3://bucket/zoo/ 's3://other/**/decoder*.onnx' https://host/model.onnx -o catalog
  onnxwire catalog models/ -o catalog --engine dask --scheduler tcp://10.0.0.1:8786
  onnxwire catalog models/ -o catalog --engine ray --address auto
  onnxwire sql catalog "select distinct model from operators where type = 'Loop'"

exit status: 0 all models were read, 1 some models or sources could not be read (stderr lists them), 2 error
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "catalog", _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    sources_help = "a file, a folder with .onnx files, a pattern, or the address of one of these"
    add("sources", metavar="SOURCE", nargs="+", help=sources_help)
    add("-o", "--output", metavar="DIR", required=True, help="the folder of the catalog")
    add(
        "--engine",
        choices=("local", "dask", "ray"),
        default="local",
        help="the system that runs the processes that read models; default: local",
    )
    add("--scheduler", metavar="ADDRESS", help="with --engine dask: the address of the scheduler")
    add(
        "--address", metavar="ADDRESS", help="with --engine ray: the address of the cluster; default: start a local one"
    )
    add(
        "--workers",
        metavar="N",
        type=make_number_parser(1, 1024, "processes"),
        help="processes of the local engine; default: one per core",
    )
    add("--hash", action="store_true", help="hash all weights (XXH3-128), to find duplicates")
    add("--check", action="store_true", help="run the rules of `onnxwire check`")
    add("--prune", action="store_true", help="remove the entries of models whose files no longer exist")
    add(
        "--repair",
        action="store_true",
        help="read all files of the catalog; if one is damaged, read its models again",
    )
    add("--json", action="store_true", help="print the summary as JSON")
    add_progress(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Make the catalog and print a summary; returns the exit status."""
    if options.scheduler is not None and options.engine != "dask":
        options.parser.error("--scheduler requires --engine dask")
    if options.address is not None and options.engine != "ray":
        options.parser.error("--address requires --engine ray")
    from onnxwire.catalog.build import build

    with progress_bar("reading models", not options.no_progress) as progress:
        summary = build(
            options.sources,
            options.output,
            engine=options.engine,
            address=options.scheduler or options.address,
            workers=options.workers,
            hash=options.hash,
            check=options.check,
            prune=options.prune,
            repair=options.repair,
            progress=progress,
        )
    if options.json:
        print(json.dumps(summary.as_dict(), indent=2))
    else:
        counts = [f"{count_text(summary.read, 'model')} read", f"{summary.unchanged:,} unchanged"]
        counts += [f"{summary.pruned:,} removed"] if summary.pruned else []
        counts += [f"{len(summary.failures):,} failed"] if summary.failures else []
        print(", ".join(counts))
        print(", ".join(f"{name} {rows:,}" for name, rows in summary.rows.items()))
    for model, reason in summary.failures.items():
        text = reason if reason.startswith(model) else f"{model}: {reason}"
        print("onnxwire:", safe_text(text), file=sys.stderr)
    return 1 if summary.failures else 0
