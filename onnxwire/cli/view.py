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
from onnxwire.errors import InUseError, SourceError
from onnxwire.io.load import load
from onnxwire.io.save import refuse_weights

_DESCRIPTION = """\
Show a model in the browser: its graphs, nodes with search, the graph around each node, tensors with histograms and heat
maps, and the bytes of any field. The page is served to this machine only, by an address that works once; Ctrl-C or
SIGTERM ends it. A model of any size opens at once: only what is on the screen is read. With -o, write a report to one
file instead.
"""
_EXAMPLES = """\
examples:
  onnxwire view model.onnx                      open it in the browser
  onnxwire view model.onnx --no-browser         print the address only
  onnxwire view model.onnx --no-browser --port 8000
                                                on another machine, seen through ssh -L 8000:127.0.0.1:8000
  onnxwire view model.onnx -o report.html       summary, largest tensors and operators, for sharing
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "view", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-o", "--output", metavar="OUT", help="write a report, an HTML file, there; - for stdout")
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
        return _write_report(options)
    from onnxwire.viewer.queries import Queries
    from onnxwire.viewer.server import Server

    model = load(options.file)
    try:
        server = Server(Queries(model), options.port)
    except OSError as error:
        raise SourceError(error.errno, f"{error.strerror}; choose another --port", f"port {options.port}") from None
    # These are the ways to end it, and so no failure.
    with server, contextlib.suppress(KeyboardInterrupt), _sigterm_as_ctrl_c(), contextlib.ExitStack() as stack:
        address = server.address
        print(json.dumps({"address": address, "file": options.file}) if options.json else address, flush=True)
        if not options.no_browser and _has_screen():
            way = stack.enter_context(_way_to(address))
            # Some browsers return only when they are closed.
            threading.Thread(target=_open, args=(way,), daemon=True).start()
        if not options.json:
            print(
                "The address works once, in the browser that opens it first. Ctrl-C or SIGTERM ends the page.",
                file=sys.stderr,
            )
        server.serve_forever(poll_interval=0.1)
    # What threads still read stays open until the process ends.
    with contextlib.suppress(InUseError):
        model.close()
    return 0


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, too, raise KeyboardInterrupt: a shell's background jobs ignore SIGINT."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    from onnxwire.viewer.report import report

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
