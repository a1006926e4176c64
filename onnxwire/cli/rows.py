"""The rows of listings: options that select and sort them, and the location of a tensor."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable

from onnxwire.analysis.listing import Row, name_matcher, row_filter, sort_rows
from onnxwire.cli.options import parse_whole_number
from onnxwire.io.remote.address import shown_source


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select and sort rows; see `make_row_test` and `sort_and_limit`."""
    parser.add_argument("-E", "--regex", action="store_true", help="read PATTERN as a regular expression")
    parser.add_argument(
        "--filter",
        metavar="COND",
        action="append",
        default=[],
        help="list only rows that fulfil a condition, such as bytes>=1M; repeatable",
    )
    sort_help = "name, bytes, type or another key of --json; the largest numbers first"
    parser.add_argument("--sort", metavar="KEY", help=sort_help)
    parser.add_argument("-r", "--reverse", action="store_true", help="reverse the order")
    parser.add_argument("--limit", metavar="N", type=parse_whole_number, help="list the first N rows")


def make_row_test(pattern: str | None, is_regex: bool, conditions: Iterable[str]) -> Callable[[Row], bool]:
    """Return a function that tests whether a row fulfils all conditions, and its name matches the pattern, if any.

    conditions: see `row_filter`. is_regex: whether the pattern is a regular expression; see `name_matcher`.
    """
    tests: list[Callable[[Row], bool]] = [row_filter(text) for text in conditions]
    if pattern is not None:
        matches_name = name_matcher(pattern, is_regex)
        # The pattern is compared with the path of a row without a name.
        tests.append(lambda row: matches_name(row["name"] or row["path"]))
    return lambda row: all(test(row) for test in tests)


def sort_and_limit(rows: list[Row], options: argparse.Namespace) -> list[Row]:
    """Sort and limit rows by the options that `add_selection` adds."""
    if options.sort is not None:
        rows = sort_rows(rows, options.sort)
    if options.reverse:
        rows = rows[::-1]
    return rows[: options.limit]


def report_no_rows(options: argparse.Namespace, noun: str) -> int:
    """Report on stderr that no row matches, and return 1; without a PATTERN and --filter, only return 0."""
    if options.pattern is None and not options.filter:
        return 0
    pattern_text = "" if options.pattern is None else f" matches {options.pattern!r}"
    conditions = " and ".join(options.filter)
    conditions_text = f"{' and' if pattern_text else ''} fulfils {conditions}" if conditions else ""
    print(f"onnxwire: {shown_source(options.file)}: no {noun}{pattern_text}{conditions_text}", file=sys.stderr)
    return 1


def describe_location(row: Row, model: str) -> str:
    """Describe the location of a tensor's payload. row: the row of the tensor; model: the path or address."""
    if row["offset"] is None:
        return f"in {row['stored']}" if row["stored"] else "-"
    if row["stored"] == "external_data":
        return f"{os.path.relpath(row['file'], os.path.dirname(shown_source(model)) or '.')} at {row['offset']:,}"
    return f"inline at {row['offset']:,}"
