"""`onnxwire info`: what a person wants to know of a model first."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from onnxwire.cli.options import add_command, add_type
from onnxwire.cli.raw import print_raw
from onnxwire.model import load
from onnxwire.summary import summarize

_DESCRIPTION = """\
Print what is in a model: version, operator sets, inputs and outputs, operators, tensors. Weights are not read, so the
size of the file does not matter.
"""
_EXAMPLES = """\
examples:
  onnxwire info model.onnx
  onnxwire info model.onnx --json | jq .tensors.bytes
  onnxwire info broken.onnx --raw
  onnxwire info tensor.pb --raw --type TensorProto
"""
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "info", "what is in a model", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument(
        "--raw", action="store_true", help="print every tag with its byte offset, of broken files too, up to the fault"
    )
    help_type = (
        "with --raw: take the file for this message, such as TensorProto; none for numbers without names; "
        "by default the message that fits"
    )
    add_type(parser, help_type, None, "none")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the summary; returns the exit status."""
    if options.raw:
        return print_raw(options.file, options.type, sys.stdout)
    if options.type is not None:
        options.parser.error("--type goes with --raw")
    with load(options.file) as model:
        summary = summarize(model)
    if options.json:
        print(json.dumps(summary, indent=2))
    else:
        print("\n".join(_lines(summary)))
    return 0


def _lines(summary: dict[str, Any]) -> list[str]:
    """The summary as text."""
    nodes, tensors = summary["nodes"], summary["tensors"]
    producer = f"{summary['producer_name']} {summary['producer_version']}".strip() or "-"
    opsets = ", ".join(f"{opset['domain'] or 'ai.onnx'} {opset['version']}" for opset in summary["opset_import"])
    rows = [
        ("file", f"{summary['file']}  ({_size(summary['bytes'])})"),
        ("IR version", str(summary["ir_version"])),
        ("opsets", opsets or "-"),
        ("producer", producer),
    ]
    rows += [(key, str(summary[key])) for key in ("domain", "model_version") if summary[key]]
    rows.append(("graph", summary["graph"]["name"] or "-"))
    rows += [("doc", summary["doc_string"])] if summary["doc_string"] else []
    lines = [f"{key:<16}{_text(value)}" for key, value in rows]
    lines += [f"  {_text(entry['key'])} = {_text(entry['value'])}" for entry in summary["metadata_props"]]
    for heading in ("inputs", "outputs"):
        values = summary["graph"][heading]
        width = min(40, max([0, *(len(value["name"]) for value in values)]))
        lines += ["", f"{heading} ({len(values)})"]
        lines += [f"  {_text(value['name']):<{width}}  {_text(value['type'])}" for value in values]
    lines += ["", f"nodes ({nodes['count']:,})"]
    lines += [
        f"  {row['count']:>9,}  {_text(row['op_type'])}{_text(' (' + row['domain'] + ')' if row['domain'] else '')}"
        for row in nodes["by_operator"]
    ]
    if summary["functions"]:
        lines += ["", f"functions ({len(summary['functions'])})"]
    for row in summary["functions"]:
        lines.append(f"  {_text(row['domain'])}.{_text(row['name'])}  ({row['nodes']:,} nodes)")
    lines += ["", f"tensors ({tensors['count']:,}, {_size(tensors['bytes'])})"]
    lines += [
        f"  {row['count']:>9,}  {row['data_type']:<14}{_size(row['bytes']):>12}" for row in tensors["by_data_type"]
    ]
    if tensors["external"]:
        lines += [f"  {tensors['external']:>9,}  in other files"]
    if tensors["largest"]:
        lines += ["", "largest tensors"]
        width = min(60, max(len(row["name"]) for row in tensors["largest"]))
        lines += [
            f"  {_size(row['bytes']):>11}  {_text(row['name']):<{width}}  {row['data_type']} {row['shape']}"
            for row in tensors["largest"]
        ]
    return lines


def _size(n: int) -> str:
    """A number of bytes for people."""
    if n < 1024:
        return f"{n} B"
    power = min((n.bit_length() - 1) // 10, len(_UNITS))
    value = n / 1024**power
    return f"{value:.2f} {_UNITS[power - 1]}" if value < 10 else f"{value:.1f} {_UNITS[power - 1]}"


def _text(text: str) -> str:
    """Text of a file, without what a terminal would obey."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
