"""`onnxwire view`: show a model as a local page, or write a report."""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.output import open_text_output, refuse_overwriting_input
from onnxwire.cli.terminal import safe_text
from onnxwire.errors import InUseError, SourceError, count_text, did_you_mean
from onnxwire.io.load import load
from onnxwire.io.references import reject_own_data_file
from onnxwire.io.remote.address import shown_source
from onnxwire.messages import SCHEMA, ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message
    from onnxwire.viewer.edits import Edits
    from onnxwire.viewer.field_tree import FieldQueries
    from onnxwire.viewer.model_comparison import ModelComparison
    from onnxwire.viewer.queries import Queries

_DESCRIPTION = """\
Show a model in the browser: its graphs, nodes with search, the graph around each node, tensors with histograms and heat
maps, and the bytes of any field. The page is served to this machine only, at an address that works once; Ctrl-C or
SIGTERM ends it. A model of any size opens at once: only visible parts are read. With --edit the page can change the
model: no file is written before you save, and FILE is overwritten only if you type a confirmation. With --type, show
the fields of any message. With -o, write a report to one file instead. With OTHER, show two models side by side, with
their differences. Without FILE, show a page that opens files by path or by dropping them.
"""
_EXAMPLES = """\
examples:
  onnxwire view model.onnx                      open it in the browser
  onnxwire view                                 a page that opens files by path or by dropping them
  onnxwire view model.onnx --no-browser         print the address only
  onnxwire view model.onnx --no-browser --port 8000
                                                on another machine, with ssh -L 8000:127.0.0.1:8000
  onnxwire view model.onnx --edit               rename, set, delete, replace weights, undo, check, compare, save as
  onnxwire view old.onnx new.onnx               two models side by side, with colored and listed differences
  onnxwire view graph.pb --type GraphProto      any message of ONNX: its fields, types, offsets and bytes
  onnxwire view points.pb --schema table.md --type Point --edit
                                                any message that a table describes, in the notation of schema/README.md
  onnxwire view model.onnx -o report.html       summary, operators and largest tensors, for sharing
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "view", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", nargs="?", help="omit it for a page that opens files")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second model, to compare the first with")
    parser.add_argument("-o", "--output", metavar="OUT", help="write a report, an HTML file; - for stdout")
    parser.add_argument(
        "--match", choices=("auto", "name", "structure"), help="with OTHER: how to pair nodes; see `onnxwire diff`"
    )
    parser.add_argument("--edit", action="store_true", help="let the page change the message, and save it")
    parser.add_argument(
        "--type", metavar="MESSAGE", help="the message in the file, such as TensorProto; default: ModelProto"
    )
    parser.add_argument(
        "--schema", metavar="TABLE", action="append", help="a table that describes the --type; repeatable"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--port", type=_parse_port, default=0, metavar="N", help="the port; default: a free one")
    parser.add_argument("--json", action="store_true", help="print the address as JSON, for programs that open it")
    parser.set_defaults(run=run, parser=parser)


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 1 to 65535, or 0 for a free one")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM, or write the report; returns the exit status."""
    if options.file is None and (options.output or options.edit or options.type or options.schema or options.match):
        options.parser.error("--edit, --type, --schema, --match and -o require FILE")
    if options.match is not None and options.other is None:
        options.parser.error("--match requires two models")
    if options.other is not None and (options.output or options.edit or options.type or options.schema):
        options.parser.error("two models are shown without --edit, --type, --schema and -o; see also `onnxwire diff`")
    if options.output is not None:
        if options.json:
            options.parser.error("--json prints the page's address, but -o writes HTML")
        if options.edit or options.type or options.schema:
            options.parser.error("a report describes an unedited model; omit --edit, --type and --schema, or -o")
        return _write_report(options)
    from onnxwire.viewer.server import Server

    queries: FieldQueries | None = None
    edits = start_page = None
    if options.file is None:
        from onnxwire.viewer.start_page import StartPage

        start_page = StartPage()
    else:
        message = load(options.file, _find_class(options))
        queries = _make_queries(message)
    if options.edit:
        from onnxwire.viewer.edits import Edits

        edits = Edits(message, options.file)
    comparison = other_queries = None
    if options.other is not None:
        comparison, other_queries = _compare(queries, options)
    try:
        server = Server(queries, options.port, edits, comparison, other_queries, start_page)
    except OSError as error:
        raise SourceError(error.errno, f"{error.strerror}; choose another --port", f"port {options.port}") from None
    with server, _EndSignals() as end_signals, contextlib.ExitStack() as stack:
        address = server.address
        print(
            json.dumps({"address": address, "file": options.file and shown_source(options.file)})
            if options.json
            else address,
            flush=True,
        )
        if not options.no_browser and _has_screen():
            redirect_path = stack.enter_context(_redirect_page(address))
            # The file is removed when the browser has opened the address, so that a killed process leaves no file.
            server.when_opened = partial(_remove, redirect_path)
            # Some browser commands return only when the browser is closed.
            threading.Thread(target=_open_browser, args=(Path(redirect_path).as_uri(),), daemon=True).start()
        if not options.json:
            print(
                "The address works once, in the browser that opens it first. Ctrl-C or SIGTERM ends the page.",
                file=sys.stderr,
            )
        server.timeout = 0.1  # seconds, after which `handle_request` returns without a request
        needed_count = 1
        while end_signals.count < needed_count:
            server.handle_request()
            server.service_actions()
            if end_signals.count == 1 == needed_count and edits is not None and not edits.is_saved:
                needed_count = 2
                _print_lines(
                    f"{_changes_text(edits)} not saved; save in the page, or press Ctrl-C again to end without saving"
                )
    if edits is not None:
        if not edits.is_saved:
            _print_lines(f"{shown_source(options.file)}: {_changes_text(edits)} not saved:", *edits.unsaved())
        edits.uploads.close()
    if start_page is not None:
        start_page.close()
    # A model that a thread still reads stays open until the process ends.
    for side_queries in filter(None, (queries, other_queries)):
        with contextlib.suppress(InUseError):
            side_queries.message.close()
    return 0


def _make_queries(message: Message) -> FieldQueries:
    """Return the object that answers the queries of the page about a message."""
    if isinstance(message, ModelProto):
        from onnxwire.viewer.queries import Queries

        return Queries(message)
    from onnxwire.viewer.tensor_queries import TensorQueries

    return TensorQueries(message)


def _compare(queries: Any, options: argparse.Namespace) -> tuple[ModelComparison, Queries]:
    """Load the second model; returns its comparison with the first, and the object that answers its queries."""
    from onnxwire.viewer.model_comparison import ModelComparison
    from onnxwire.viewer.queries import Queries

    other_queries = Queries(load(options.other))
    comparison = ModelComparison(queries.model, other_queries.model, options.match or "auto")
    for side, side_queries in enumerate((queries, other_queries)):
        side_queries.marks = partial(comparison.marks, side)
    return comparison, other_queries


def _find_class(options: argparse.Namespace) -> type[Message]:
    """Return the class of the message in the file."""
    from onnxwire.engine.schema import load_schema

    if options.schema is None and options.type is None:
        return ModelProto
    if options.type is None:
        options.parser.error("--schema requires --type, the message in the file")
    schema = SCHEMA
    if options.schema is not None:
        try:
            schema = load_schema(*options.schema)
        except ValueError as error:
            options.parser.error(str(error))
    # Accept the full name of a message, and its name without the package.
    classes = dict(schema.messages)
    for name, cls in schema.messages.items():
        classes.setdefault(name.removeprefix(f"{cls.DESCRIPTOR.file.package}."), cls)
    if options.type not in classes:
        hint = did_you_mean(options.type, classes) or f"; the messages are {', '.join(schema.messages)}"
        options.parser.error(f"there is no message {options.type!r}{hint}")
    return classes[options.type]


def _changes_text(edits: Edits) -> str:
    """Format the number of unsaved changes with a verb: 1 change is, 2 changes are."""
    count = len(edits.unsaved())
    return f"{count_text(count, 'change')} {'is' if count == 1 else 'are'}"


def _print_lines(*lines: str) -> None:
    for line in lines:
        print("onnxwire:", safe_text(line), file=sys.stderr)


class _EndSignals:
    """A context manager in which Ctrl-C and SIGTERM only increase `count`: the regular end of the page, not an error.

    An exception instead would be lost if the signal arrives while Python runs a weakref callback or a destructor.
    """

    def __enter__(self) -> _EndSignals:
        self.count = 0
        """The number of requests to end; SIGTERM counts as two, so that one ends the page with unsaved changes."""
        # Background jobs of a shell ignore SIGINT, and only SIGTERM ends them. None is a handler that is not Python's.
        self._previous_handlers = {
            number: signal.signal(number, self._add_request)
            for number in (signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(number) not in (signal.SIG_IGN, None)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _add_request(self, number: int, _: object) -> None:
        self.count += 2 if number == signal.SIGTERM else 1


@contextlib.contextmanager
def _redirect_page(address: str) -> Iterator[str]:
    """Write a private file that redirects to an address; yields its path, and removes the file at the end.

    Every user of the machine can read the browser's command line, so it must not contain the address, which gives
    access to the page.
    """
    descriptor, path = tempfile.mkstemp(prefix="onnxwire-", suffix=".html")  # with mode 0600
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(_REDIRECT_HTML.format(address=html.escape(address)))
        yield path
    finally:
        _remove(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_REDIRECT_HTML = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>onnxwire</title>
<p><a href="{address}">The page of onnxwire</a></p>
</html>
"""


def _has_screen() -> bool:
    """Return whether there is probably a graphical browser.

    A text browser runs no scripts and occupies the terminal.
    """
    return sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _open_browser(address: str) -> None:
    import webbrowser

    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(address)


def _write_report(options: argparse.Namespace) -> int:
    """Write the report of a model; returns the exit status."""
    from onnxwire.viewer.html_report import report

    refuse_overwriting_input(options.file, options.output)
    with load(options.file) as model:
        reject_own_data_file(model, options.output)
        text = report(model)
    if options.output == "-":
        print(text, end="")
        return 0
    with open_text_output(options.output, "replace") as out:
        out.write(text)
    return 0
