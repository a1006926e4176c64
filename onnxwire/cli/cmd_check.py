"""`onnxwire check`: violations of the rules of the ONNX IR, and their repairs."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from onnxwire.cli.advice import shell_advice
from onnxwire.cli.options import add_command, add_progress, add_type, make_number_parser, refuse_terminal
from onnxwire.cli.progress import progress_bar
from onnxwire.cli.terminal import add_color
from onnxwire.errors import DecodeError, FileError, SourceError
from onnxwire.io.folder import match_pattern
from onnxwire.io.remote.address import shown_source, without_credentials
from onnxwire.messages import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnxwire.checker.problems import Problems
    from onnxwire.cli.check_report import Reporter
    from onnxwire.engine.message import Message

_DESCRIPTION = """\
Check files against the rules of the ONNX IR; report each fault with its location and a remedy. Files may have any
size; no weight above 1 MiB is read as a whole, except with --checksums, --untrusted or --baseline. Errors violate the
specification, warnings are likely mistakes, and notes are advice. Without --strict or --select, the text output does
not list notes.
"""
_EXAMPLES = """\
examples:
  onnxwire check model.onnx
  onnxwire check 'models/**/*.onnx' --select error
  onnxwire check model.onnx --strict                also print notes
  onnxwire check model.onnx --ignore graph-value-info-known-name --fail-on warning
  onnxwire check model.onnx --json | jq '.[].problems[].rule'
  onnxwire check model.onnx --sarif > onnx.sarif
  onnxwire check model.onnx --untrusted             report known attacks on programs that read models
  onnxwire check new.onnx --untrusted --baseline trusted.onnx
  onnxwire check model.onnx --fix --dry-run         list the repairs of problems with one safe repair
  onnxwire check model.onnx --fix -o repaired.onnx  apply them
  onnxwire check values.pb --type SequenceProto
  onnxwire check --rules --select error             the rules

exit status: 0 no problem as severe as --fail-on, 1 such a problem, 2 a file could not be checked or written
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(
        commands, "check", _DESCRIPTION, _EXAMPLES, "also apply the security rules, and refuse redirects"
    )
    add = parser.add_argument
    add("files", metavar="FILE", nargs="*", help="a path, a pattern such as 'models/*.onnx', or - for stdin")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, for code hosts and editors")
    add("--strict", action="store_true", help="print notes, too")
    add("--operators", metavar="TABLE", help="check nodes against the operators of this table; see docs/check.md")
    add("--select", metavar="RULES", action="append", help="check only these rules or severities, separated by commas")
    add("--ignore", metavar="RULES", action="append", help="do not check these rules or severities")
    add("--ir-version", metavar="N", type=int, help="apply the rules of this IR version, not of the file's own")
    add_type(parser, "the message in the files, such as SequenceProto; default: ModelProto")
    add("--checksums", action="store_true", help="read files of external data to compare their checksums")
    add(
        "--max-elements",
        metavar="N",
        type=make_number_parser(1, 1 << 62, "elements"),
        help="with --untrusted: report values of more elements; default: 134,217,728",
    )
    add(
        "--baseline",
        metavar="TRUSTED",
        help="omit problems that TRUSTED has too, at the corresponding element, even if its name differs",
    )
    add(
        "--fail-on",
        choices=["error", "warning", "note"],
        default="error",
        help="the lowest severity for exit status 1; default: error",
    )
    add("--fix", action="store_true", help="repair problems that have one safe repair, then check again")
    add("--dry-run", action="store_true", help="with --fix: list the repairs, but apply none")
    add("-o", "--output", metavar="OUT", help="with --fix: the file to write instead of FILE")
    add(
        "--limit",
        metavar="N",
        type=int,
        help="report N problems of a rule and count the rest; default: 10,000; 0 reports all",
    )
    add_progress(parser)
    add("--rules", action="store_true", help="list the rules, including those that cannot be checked on a file")
    add("-q", "--quiet", action="store_true", help="print no problems; the exit status is the result")
    verbose_help = "print all problems of a rule, up to --limit, and on a terminal the text of the rule"
    add("-v", "--verbose", action="store_true", help=verbose_help)
    add_color(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the problems of all files; returns the exit status."""
    from onnxwire.checker.limits import MAX_ELEMENTS, MAX_PROBLEMS_PER_RULE
    from onnxwire.checker.run import choose
    from onnxwire.cli.check_report import make_reporter, print_rules

    select, ignore = _split_rules(options.select), _split_rules(options.ignore)
    if options.rules:
        print_rules(sys.stdout, options, select, ignore)
        return 0
    _check_options(options)
    choose(select, ignore, options.untrusted)  # raises for unknown rules before anything is printed
    paths = _expand_patterns(options.files)
    if options.output is not None and len(paths) > 1:
        options.parser.error("-o writes one file, but several files are given")
    is_model_on_stdout = options.output == "-"
    reporter = make_reporter(sys.stderr if is_model_on_stdout else sys.stdout, options, len(paths))
    check_options = {
        "select": select,
        "ignore": ignore,
        "ir_version": options.ir_version,
        "checksums": options.checksums,
        "operators": options.operators,
        "untrusted": options.untrusted,
        "max_elements": options.max_elements or MAX_ELEMENTS,
        "baseline": options.baseline,
        "limit": MAX_PROBLEMS_PER_RULE if options.limit is None else options.limit or None,
    }
    status = 0
    for path, path_error in paths.items():
        try:
            if path_error is not None:
                raise path_error
            if len(paths) > 1 or path not in options.files:
                _refuse_stream(path)
            status = max(status, _check(path, options, check_options, reporter))
        except (DecodeError, FileError) as error:
            # The error is reported; continue with the other files.
            line = without_credentials(shell_advice(str(error)))
            reporter.add_fault(shown_source(path), line)
            sys.stdout.flush()
            print("onnxwire:", line.replace("\n", "\\n"), file=sys.stderr)
            status = 2
    reporter.finish()
    return status


def _check_options(options: argparse.Namespace) -> None:
    """Exit with an error if an option is wrong or missing, or contradicts another.

    Raises SaveError if a model would be written to a terminal.
    """
    if not options.files:
        options.parser.error("name a file, or - for stdin")
    if options.limit is not None and options.limit < 0:
        options.parser.error("--limit must be 0 or more")
    if options.ir_version is not None and options.ir_version < 1:
        options.parser.error("--ir-version must be 1 or more")
    if options.max_elements is not None and not options.untrusted:
        options.parser.error("--max-elements requires --untrusted")
    if options.baseline is not None and options.type != "ModelProto":
        options.parser.error("--baseline compares models, so --type must be ModelProto")
    if options.baseline == "-":
        options.parser.error("--baseline needs a path or an address")
    if not options.fix and (options.dry_run or options.output is not None):
        options.parser.error("--dry-run and -o require --fix")
    refuse_terminal(options.output)
    if options.fix and "-" in options.files and options.output is None and not options.dry_run:
        options.parser.error("--fix with stdin needs -o: the file to write, or - for stdout")


def _refuse_stream(path: str) -> None:
    """Raise SourceError for a pipe or device, since reading it might block; - is accepted."""
    if path == "-":
        return
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise SourceError(errno.EINVAL, "this is a pipe or device; check it in a separate command", path)


def _check(path: str, options: argparse.Namespace, check_options: dict[str, Any], reporter: Reporter) -> int:
    """Check one file; with --fix, repair it first. Returns the exit status."""
    from onnxwire.checker import check
    from onnxwire.checker.registry import SEVERITIES
    from onnxwire.io.load import load

    cls = SCHEMA.messages[f"onnx.{options.type}"]
    with load(sys.stdin.buffer if path == "-" else path, cls) as message:
        is_written = options.fix and _repair(message, path, options, check_options, reporter)
        out = (options.output or path) if is_written else path
        if out == "-" or not is_written:
            problems, seconds = _measure_time(lambda: check(message, **check_options))
    if out != "-" and is_written:
        problems, seconds = _measure_time(lambda: check(out, cls, **check_options))
    reporter.add_problems(shown_source(out), problems, seconds)
    counts = problems.counts()
    return int(any(counts[severity] for severity in SEVERITIES[: SEVERITIES.index(options.fail_on) + 1]))


def _measure_time(call: Callable[[], Problems]) -> tuple[Problems, float]:
    """Return the result of a call, and its duration in seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def _repair(
    message: Message, path: str, options: argparse.Namespace, check_options: dict[str, Any], reporter: Reporter
) -> bool:
    """Report the repairs of a message, apply them, and write it; returns whether it was written."""
    from onnxwire.checker import check
    from onnxwire.checker.fixes import apply_fixes, find_fixes, fixable_rules
    from onnxwire.checker.run import choose
    from onnxwire.io.save import LargeFileWarning, save

    rules = {
        rule.id for rule in choose(check_options["select"], check_options["ignore"], check_options["untrusted"])
    } & fixable_rules()
    fixes = find_fixes(message, check(message, **{**check_options, "select": rules, "limit": None}))
    reporter.add_fixes(shown_source(path), fixes)
    if options.dry_run or not (fixes or options.output is not None):
        return False
    apply_fixes(fixes)
    out = options.output or path
    with progress_bar(f"writing {shown_source(out)}", not options.no_progress) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeFileWarning)  # `check` reports large files: rule model-protobuf-size
        save(message, sys.stdout.buffer if out == "-" else out, progress=progress)
    return True


def _split_rules(option_values: list[str] | None) -> list[str] | None:
    """Split the values of a repeatable option at commas."""
    if option_values is None:
        return None
    return [rule.strip() for text in option_values for rule in text.split(",") if rule.strip()]


def _expand_patterns(arguments: list[str]) -> dict[str, SourceError | None]:
    """Expand patterns to paths without duplicates; a pattern without matches is itself a path.

    Returns a dict: the value of a path is None; the value of a pattern that can't be matched is the error.
    """
    paths: dict[str, SourceError | None] = {}
    for argument in arguments:
        is_file_name = argument == "-" or "://" in argument or os.path.exists(argument)
        try:
            matching_paths = [] if is_file_name else sorted(match_pattern(argument))
        except SourceError as error:
            paths[argument] = error
        else:
            paths.update(dict.fromkeys(matching_paths or [argument]))
    return paths
