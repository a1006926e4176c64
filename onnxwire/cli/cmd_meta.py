"""`onnxwire meta`: list, set and remove a model's metadata."""

from __future__ import annotations

import argparse
import json
from typing import Any

from onnxwire.cli.options import add_command
from onnxwire.cli.result import add_result, save_result
from onnxwire.cli.terminal import safe_text
from onnxwire.errors import PathError
from onnxwire.io.load import load
from onnxwire.messages import GraphProto, ModelProto

_DESCRIPTION = """\
List the metadata of a model (metadata_props), print single values, set or remove entries. Of entries with the same
key, the last is shown. Without -o or -i, no file is written, and the exit status is 1 if a KEY does not exist, or if
there are no entries.
"""
_EXAMPLES = """\
examples:
  onnxwire meta m.onnx                                    all entries, KEY = VALUE
  onnxwire meta m.onnx --json
  onnxwire meta m.onnx author                             one value, without escapes
  onnxwire meta m.onnx author=me license=MIT -o out.onnx
  onnxwire meta m.onnx --delete author -i
  onnxwire meta m.onnx --graph                            the entries of the main graph
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "meta", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("entries", metavar="KEY[=VALUE]", nargs="*", help="an entry to print, or with =VALUE to set")
    parser.add_argument("--delete", metavar="KEY", action="append", default=[], help="an entry to remove; repeatable")
    parser.add_argument("--graph", action="store_true", help="use the metadata of the main graph, not of the model")
    parser.add_argument("--json", action="store_true", help="print JSON: an object of strings")
    add_result(parser, is_required=False)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """List or change the metadata; returns the exit status."""
    changes = [entry.partition("=")[::2] for entry in options.entries if "=" in entry]
    printed_keys = [entry for entry in options.entries if "=" not in entry]
    is_written = bool(options.output or options.in_place)
    if (changes or options.delete) and (printed_keys or options.json):
        options.parser.error("a command either prints or changes entries; to set one, write KEY=VALUE")
    if bool(changes or options.delete) != is_written:
        reason = "no entry is changed" if is_written else "name the file to write after -o, or overwrite FILE with -i"
        options.parser.error(f"{reason}; KEY=VALUE and --delete KEY change entries")
    with load(options.file) as model:
        message = model.graph if options.graph else model
        if is_written:
            _change(model, message, changes, options.delete)
            save_result(model, options)
            return 0
        entries = {entry.key: entry.value for entry in message.metadata_props}
    printed_entries = {key: entries[key] for key in printed_keys if key in entries} if printed_keys else entries
    if options.json:
        print(json.dumps(printed_entries, indent=2, ensure_ascii=False))
    elif printed_keys:
        for value in printed_entries.values():
            print(value)
    else:
        for key, value in entries.items():
            print(f"{safe_text(key)} = {safe_text(value)}")
    return 0 if printed_entries and len(printed_entries) == len(dict.fromkeys(printed_keys or printed_entries)) else 1


def _change(
    model: ModelProto, message: ModelProto | GraphProto, changes: list[tuple[str, str]], removed_keys: list[str]
) -> None:
    """Remove entries, then set others; the order of the remaining entries does not change.

    message: the model or graph with the entries. changes: pairs of a key and its new value. All entries with a key are
    set or removed; for a new key, an entry is added.
    Raises PathError if an entry to remove does not exist.
    """
    props = message.metadata_props
    for key in removed_keys:
        indices = [i for i, entry in enumerate(props) if entry.key == key]
        if not indices:
            keys = ", ".join(repr(entry.key) for entry in props)
            advice = f"the entries are: {keys}" if keys else "metadata_props is empty"
            raise PathError(f"there is no entry {key!r} to remove; {advice}", "", model._document.name)
        for i in reversed(indices):
            del props[i]
    for key, value in changes:
        entries = [entry for entry in props if entry.key == key] or [props.add(key=key)]
        for entry in entries:
            entry.value = value
