"""`onnxwire view`: a model as a local page, or as a report in one file."""

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
from pathlib import Path
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.output import open_text_output, refuse_same
from onnxwire.cli.terminal import safe_text
from onnxwire.errors import InUseError, SourceError, count_text, did_you_mean
from onnxwire.io.load import load
from onnxwire.io.remote.address import shown_source
from onnxwire.io.save import refuse_weights
from onnxwire.messages import SCHEMA, ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message
    from onnxwire.viewer.edits import Edits
    from onnxwire.viewer.field_tree import FieldQueries

_DESCRIPTION = """\
Show a model in the browser: its graphs, nodes with search, the graph around each node, tensors with histograms and heat
maps, and the bytes of any field. The page is served to this machine only, by an address that works once; Ctrl-C or
SIGTERM ends it. A model of any size opens at once: only what is on the screen is read. With --edit the page can change
the model: nothing is written before you save, and never over FILE unless you say so in words. With --type, show the
fields of any message. With -o, write a report to one file instead.
"""
_EXAMPLES = """\
examples:
  onnxwire view model.onnx                      open it in the browser
  onnxwire view model.onnx --no-browser         print the address only
  onnxwire view model.onnx --no-browser --port 8000
                                                on another machine, seen through ssh -L 8000:127.0.0.1:8000
  onnxwire view model.onnx --edit               rename, set, delete, replace weights, undo, check, compare, save as
  onnxwire view graph.pb --type GraphProto      any message of ONNX: its fields, types, offsets and bytes
  onnxwire view points.pb --schema table.md --type Point --edit
                                                any message that a table describes, in the notation of schema/README.md
  onnxwire view model.onnx -o report.html       summary, largest tensors and operators, for sharing
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "view", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-o", "--output", metavar="OUT", help="write a report, an HTML file, there; - for stdout")
    parser.add_argument("--edit", action="store_true", help="let the page change the message, and save it")
    parser.add_argument("--type", metavar="MESSAGE", help="what the file is, such as TensorProto; a model by default")
    parser.add_argument(
        "--schema", metavar="TABLE", action="append", help="a table that describes the --type; repeatable"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument(
        "--port", type=_port, default=0, metavar="N", help="the port to serve at; a free one by default"
    )
    parser.add_argument("--json", action="store_true", help="print the address as JSON, for programs that open it")
    parser.set_defaults(run=run, parser=parser)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; these are 1 to 65535, or 0 for a free one")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM, or write the report; returns the exit status."""
    if options.output is not None:
        if options.json:
            options.parser.error("--json is for the page's address, and -o writes HTML")
        if options.edit or options.type or options.schema:
            options.parser.error("a report is of a model as it is; leave out --edit, --type and --schema, or -o")
        return _write_report(options)
    from onnxwire.viewer.field_tree import FieldQueries
    from onnxwire.viewer.server import Server

    message = load(options.file, _type_of(options))
    queries: FieldQueries
    if isinstance(message, ModelProto):
        from onnxwire.viewer.queries import Queries

        queries = Queries(message)
    else:
        queries = FieldQueries(message)
    edits = None
    if options.edit:
        from onnxwire.viewer.edits import Edits

        edits = Edits(message, options.file)
    try:
        server = Server(queries, options.port, edits)
    except OSError as error:
        raise SourceError(error.errno, f"{error.strerror}; choose another --port", f"port {options.port}") from None
    ending = _Ending()
    # Ctrl-C and SIGTERM are the ways to end it, and so no failure.
    with server, contextlib.suppress(KeyboardInterrupt), ending, contextlib.ExitStack() as stack:
        address = server.address
        print(
            json.dumps({"address": address, "file": shown_source(options.file)}) if options.json else address,
            flush=True,
        )
        if not options.no_browser and _has_screen():
            way = stack.enter_context(_way_to(address))
            # Some browsers return only when they are closed.
            threading.Thread(target=_open, args=(way,), daemon=True).start()
        if not options.json:
            print(
                "The address works once, in the browser that opens it first. Ctrl-C or SIGTERM ends the page.",
                file=sys.stderr,
            )
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever(poll_interval=0.1)
            if edits is None or edits.is_saved or ending.is_asked_twice():
                break
            _tell(f"{_changes_of(edits)} not saved; save in the page, or press Ctrl-C again to end without")
    if edits is not None:
        if not edits.is_saved:
            _tell(f"{shown_source(options.file)}: {_changes_of(edits)} not saved:", *edits.unsaved())
        edits.uploads.close()
    # What threads still read stays open until the process ends.
    with contextlib.suppress(InUseError):
        message.close()
    return 0


def _type_of(options: argparse.Namespace) -> type[Message]:
    """The class of the message in the file."""
    from onnxwire.engine.schema import load_schema

    if options.schema is None and options.type is None:
        return ModelProto
    if options.type is None:
        options.parser.error("--schema goes with --type, the message that the file is")
    schema = SCHEMA
    if options.schema is not None:
        try:
            schema = load_schema(*options.schema)
        except ValueError as error:
            options.parser.error(str(error))
    # By its whole name, or without the package.
    known = dict(schema.messages)
    for name, cls in schema.messages.items():
        known.setdefault(name.removeprefix(f"{cls.DESCRIPTOR.file.package}."), cls)
    if options.type not in known:
        hint = did_you_mean(options.type, known) or f"; there are {', '.join(known)}"
        options.parser.error(f"there is no message {options.type!r}{hint}")
    return known[options.type]


def _changes_of(edits: Edits) -> str:
    count = len(edits.unsaved())
    return f"{count_text(count, 'change')} {'is' if count == 1 else 'are'}"


def _tell(*lines: str) -> None:
    for line in lines:
        print("onnxwire:", safe_text(line), file=sys.stderr)


class _Ending:
    """Lets SIGTERM, too, raise KeyboardInterrupt: a shell's background jobs ignore SIGINT."""

    def __enter__(self) -> None:
        self._count = 0
        self._before = signal.signal(signal.SIGTERM, self._terminate)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def _terminate(self, *_: object) -> None:
        self._count += 1  # who sends it does not ask
        raise KeyboardInterrupt

    def is_asked_twice(self) -> bool:
        """Whether this is not the first time that somebody wants to end it."""
        self._count += 1
        return self._count > 1


@contextlib.contextmanager
def _way_to(address: str) -> Iterator[str]:
    """Give the address of a page that leads to another, a file that nobody else can read.

    The browser's command line, which every user of the machine can read, so has no token in it.
    """
    descriptor, path = tempfile.mkstemp(prefix="onnxwire-", suffix=".html")  # of mode 0600
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(_WAY.format(address=html.escape(address)))
        yield Path(path).as_uri()
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


_WAY = """\
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
    """Whether a browser would be a window: one in the terminal runs no scripts, and would take the terminal over."""
    return sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _open(address: str) -> None:
    import webbrowser

    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(address)


def _write_report(options: argparse.Namespace) -> int:
    from onnxwire.viewer.html_report import report

    refuse_same(options.file, options.output)
    with load(options.file) as model:
        refuse_weights(model, options.output)
        text = report(model)
    if options.output == "-":
        print(text, end="")
        return 0
    with open_text_output(options.output, "replace") as out:
        out.write(text)
    return 0
