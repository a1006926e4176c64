"""The common part of commands that change a model: options for the output, loading and saving."""

from __future__ import annotations

import argparse
import sys

from onnxwire.cli.options import add_progress, refuse_terminal
from onnxwire.cli.progress import progress_bar
from onnxwire.engine.message import Message
from onnxwire.io.load import load
from onnxwire.io.references import reject_own_data_file
from onnxwire.io.remote.address import shown_source
from onnxwire.io.save import save
from onnxwire.messages import ModelProto


def add_result(parser: argparse.ArgumentParser, is_required: bool = True) -> None:
    """Add --no-progress, and the alternatives -o and -i, of which one selects the output.

    is_required: whether -o or -i must be given.
    """
    targets = parser.add_mutually_exclusive_group(required=is_required)
    targets.add_argument("-o", "--output", metavar="OUT", help="the model to write, which may be FILE; - for stdout")
    targets.add_argument("-i", "--in-place", action="store_true", help="replace FILE by the changed model, atomically")
    add_progress(parser)


def load_to_change(options: argparse.Namespace) -> ModelProto:
    """Load FILE. Raises SaveError if OUT contains external data of FILE, even data that the command removes."""
    model = load(options.file)
    if options.output not in (None, "-"):
        reject_own_data_file(model, options.output)
    return model


def save_result(message: Message, options: argparse.Namespace) -> None:
    """Write a changed message to the output that the options select; unchanged bytes are copied from file to file."""
    out = options.file if options.in_place else options.output
    refuse_terminal(out)
    with progress_bar(f"writing {shown_source(out)}", not options.no_progress) as progress:
        save(message, sys.stdout.buffer if out == "-" else out, progress=progress)
