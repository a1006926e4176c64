"""The command line: `onnxwire COMMAND`, one module per command."""

from __future__ import annotations

import gc
import io
import os
import sys
import warnings

from onnxwire._version import __version__
from onnxwire.cli.advice import shell_advice
from onnxwire.cli.commands import SUMMARIES
from onnxwire.cli.terminal import CleanTerminal, clean_terminals, ensure_standard_streams, safe_text
from onnxwire.errors import Error, FileError, did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

EXIT_OK, EXIT_ERROR = 0, 2  # exit statuses
_STDOUT = "<stdout>"  # the name of stdout in errors
_COLLECTION_THRESHOLD = 10_000  # objects allocated before a garbage collection


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    arguments: the words after the program's name, by default sys.argv[1:].
    Returns the exit status: 0 for success; 1 for a negative result, such as a difference, a problem or no match; 2 for
    an error; 130 after Ctrl-C. Raises SystemExit for --help and for wrong arguments.
    """
    is_own_process = arguments is None
    if is_own_process:
        # Imports allocate many objects and no garbage. Collections, most of all those at exit, would take a tenth of
        # the time of a short command.
        gc.set_threshold(_COLLECTION_THRESHOLD, *gc.get_threshold()[1:])
    try:
        return _run_and_report(arguments)
    finally:
        if is_own_process:
            gc.freeze()  # exempts all objects from the collections at exit


def _run_and_report(arguments: list[str] | None) -> int:
    """Run one command and print its errors; returns the exit status."""
    with ensure_standard_streams(), clean_terminals():
        try:
            try:
                return _run(arguments)
            finally:
                # Flush before any error message is printed: errors of the interpreter's flush at exit could not be
                # reported.
                sys.stdout.flush()
        except (Error, OSError) as error:
            # An error of a file has the name of the file; an error of stdout has no name, or <stdout>.
            name = getattr(error, "filename", None)
            if isinstance(error, OSError) and name in (None, _STDOUT):
                _discard_output(sys.stdout)
                if isinstance(error, BrokenPipeError):
                    return EXIT_OK  # the reader closed the pipe
            if not isinstance(error, Error):
                error = FileError.from_os_error(error, name or _STDOUT)
            _print_error(str(error))
            return EXIT_ERROR
        except KeyboardInterrupt:
            return 128 + 2  # as a shell reports the signal SIGINT


def _run(arguments: list[str] | None) -> int:
    """Parse the arguments and run the command; returns the exit status."""
    command_words = sys.argv[1:] if arguments is None else arguments
    if command_words == ["--version"]:
        print("onnxwire", __version__)
        return EXIT_OK
    # Imported here, since argparse and re take 10 ms to import.
    from onnxwire.cli.options import server_settings
    from onnxwire.cli.parser import list_options, make_parser
    from onnxwire.io.remote.address import shown_source

    name = next((word for word in command_words if not word.startswith("-")), None)
    parser = make_parser([name] if name in SUMMARIES else [])
    if name is not None and name not in SUMMARIES:
        # If an option before this word is wrong, report that option instead of the word.
        parser.parse_known_args(command_words[: command_words.index(name)])
        if _is_file(name):
            parser.error(
                f"the first word must be a command, not a file; for a summary of the file: onnxwire info "
                f"{shown_source(name)}"
            )
        parser.error(f"there is no command {name!r}{did_you_mean(name, SUMMARIES)}")
    options, unknown_words = parser.parse_known_args(command_words)
    if unknown_words:
        hint = ""
        if name is not None:
            parser.prog += f" {name}"
            flag = unknown_words[0].partition("=")[0]
            hint = did_you_mean(flag, list_options(parser, name)) if flag.startswith("--") else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown_words)}{hint}")
    if options.command is None:
        parser.print_help()
        return EXIT_ERROR
    # Names in a file may contain characters that the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        stream = stream.stream if isinstance(stream, CleanTerminal) else stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings(), server_settings(options):
        warnings.showwarning = lambda message, *_: _print_error(f"warning: {message}")
        status: int = options.run(options)
    return status


def _is_file(word: str) -> bool:
    """Return whether the first word of a command line is probably the name of a file, not of a command."""
    return "://" in word or word.endswith(".onnx") or os.path.isfile(word)


def _discard_output(stream: IO[str]) -> None:
    """Redirect an unwritable stream to the null device, since flushing it at exit would fail again."""
    with open(os.devnull, "wb") as null_device:
        os.dup2(null_device.fileno(), stream.fileno())


def _print_error(text: str) -> None:
    """Print an error or warning as one line on stderr, without users, passwords and queries in addresses.

    Newlines are escaped, and on a terminal all other unprintable characters.
    """
    text = shell_advice(text)
    from onnxwire.io.remote.address import without_credentials

    text = without_credentials(text)
    line = safe_text(text) if sys.stderr.isatty() else text.replace("\n", "\\n")
    try:
        print("onnxwire:", line, file=sys.stderr)
    except OSError:
        _discard_output(sys.stderr)  # the exit status still reports the error
