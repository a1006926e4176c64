"""`onnxwire info`: the summary of a model."""

from __future__ import annotations

import sys

from onnxwire.analysis.sizes import size_text
from onnxwire.analysis.summary import summarize
from onnxwire.cli.options import add_command, add_type
from onnxwire.cli.terminal import add_color, cut_middle, make_painter, safe_text, terminal_width
from onnxwire.errors import count_text
from onnxwire.io.load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from onnxwire.cli.terminal import Paint

_DESCRIPTION = """\
Print the summary of a model: IR version, operator sets, inputs and outputs, operators, tensors. Weights are not read,
so the size of the file does not matter.
"""
_EXAMPLES = """\
examples:
  onnxwire info model.onnx
  onnxwire info model.onnx --json | jq .tensors.bytes
  onnxwire info broken.onnx --raw
  onnxwire info https://host/model.onnx -v
  onnxwire info tensor.pb --raw --type TensorProto
"""

_KEY_COLUMN_CHARS = 16  # width of the column of keys
_MAX_TEXT_CHARS = 200  # maximum number of printed characters of a doc string, type, metadata key or value, unescaped
_MAX_ENTRIES = 50  # maximum number of printed metadata entries
_MIN_VALUE_CHARS = 20  # metadata values, types, and names of large tensors are not truncated to fewer characters


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "info", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument(
        "--raw", action="store_true", help="print every tag with its byte offset, in damaged files up to the fault"
    )
    type_help = (
        "with --raw: the type of the message in the file, such as TensorProto, or `none` to print field numbers "
        "only; default: the type is detected"
    )
    add_type(parser, type_help, None, "none")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="for a file on a server: print the numbers of requests and fetched bytes on stderr",
    )
    add_color(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the summary, or with --raw every tag; returns the exit status."""
    if options.raw:
        from onnxwire.cli.raw_dump import print_raw

        return print_raw(options.file, options.type, sys.stdout)
    if options.type is not None:
        options.parser.error("--type requires --raw")
    with load(options.file) as model:
        summary = summarize(model)
        memory = model._document.memory  # None for a local file
        if options.verbose and memory is not None:
            source, size = memory.source, size_text(len(memory))
            transfer_text = f"{count_text(source.requests, 'request')}, {size_text(source.received)} of {size}"
            print(f"{safe_text(model._document.name)}: {transfer_text}", file=sys.stderr)
    if options.json:
        import json

        print(json.dumps(summary, indent=2))
    else:
        print("\n".join(_lines(summary, make_painter(options.color), terminal_width())))
    return 0


def _lines(summary: dict[str, Any], paint: Paint, max_width: int | None) -> list[str]:
    """Format the summary as text.

    max_width: the width of the terminal; doc strings, metadata, the names and types of values, and the names of tensors
    are truncated to fit it. None without a terminal.
    """
    nodes, tensors = summary["nodes"], summary["tensors"]
    producer = f"{summary['producer_name']} {summary['producer_version']}".strip() or "-"
    opsets = ", ".join(f"{opset['domain'] or 'ai.onnx'} {opset['version']}" for opset in summary["opset_import"])
    rows = [
        ("file", f"{summary['file']}  ({size_text(summary['bytes'])})"),
        ("IR version", str(summary["ir_version"])),
        ("opsets", opsets or "-"),
        ("producer", producer),
    ]
    rows += [(key, str(summary[key])) for key in ("domain", "model_version") if summary[key]]
    rows.append(("graph", summary["graph"]["name"] or "-"))
    doc_width = max_width and max_width - _KEY_COLUMN_CHARS
    rows += [("doc", _truncate(summary["doc_string"], doc_width))] if summary["doc_string"] else []
    lines = [f"{paint(f'{key:<{_KEY_COLUMN_CHARS}}', 'cyan')}{safe_text(value)}" for key, value in rows]
    entries = summary["metadata_props"]
    is_cut = False
    for entry in entries[:_MAX_ENTRIES]:
        # 5 characters are the indentation and the equals sign between spaces.
        key = _truncate(entry["key"], max_width and max_width - 5 - _MIN_VALUE_CHARS)
        value = _truncate(entry["value"], max_width and max(max_width - 5 - len(key), _MIN_VALUE_CHARS))
        is_cut |= value != safe_text(entry["value"])
        lines.append(f"  {paint(key, 'cyan')} = {value}")
    if len(entries) > _MAX_ENTRIES:
        lines.append(f"  and {len(entries) - _MAX_ENTRIES:,} more (`onnxwire meta FILE` prints all)")
    if is_cut:
        lines.append("  (`onnxwire meta FILE KEY` prints a whole value)")
    for heading in ("inputs", "outputs"):
        values = summary["graph"][heading]
        width = min(40, max([0, *(len(value["name"]) for value in values)]))
        lines += ["", paint(f"{heading} ({len(values)})", "bold")]
        max_chars = max(max_width - width - 4, _MIN_VALUE_CHARS) if max_width else None
        lines += [
            f"  {_shorten_name(value['name'], max_width and width):<{width}}  {_truncate(value['type'], max_chars)}"
            for value in values
        ]
    lines += ["", paint(f"nodes ({nodes['count']:,})", "bold")]
    lines += [
        f"  {row['count']:>9,}  {safe_text(row['op_type'])}{safe_text(domain and f' ({domain})')}"
        for row in nodes["by_operator"]
        for domain in (row["domain"],)
    ]
    if summary["functions"]:
        lines += ["", paint(f"functions ({len(summary['functions'])})", "bold")]
    for row in summary["functions"]:
        lines.append(f"  {safe_text(row['domain'])}.{safe_text(row['name'])}  ({count_text(row['nodes'], 'node')})")
    lines += ["", paint(f"tensors ({tensors['count']:,}, {size_text(tensors['bytes'])})", "bold")]
    lines += [
        f"  {row['count']:>9,}  {row['data_type']:<14}{size_text(row['bytes']):>12}" for row in tensors["by_data_type"]
    ]
    if tensors["external"]:
        lines += [f"  {tensors['external']:>9,}  in other files"]
    if tensors["largest"]:
        lines += ["", paint("largest tensors", "bold")]
        types = [f"{row['data_type']} {row['shape']}" for row in tensors["largest"]]
        width = min(60, max(len(row["name"]) for row in tensors["largest"]))
        if max_width:
            # 17 characters are the indentation, the size, and the gaps between columns.
            width = max(min(width, max_width - 17 - max(map(len, types))), _MIN_VALUE_CHARS)
        lines += [
            f"  {size_text(row['bytes']):>11}  {_shorten_name(row['name'], max_width and width):<{width}}  {type_text}"
            for row, type_text in zip(tensors["largest"], types, strict=True)
        ]
    return lines


def _shorten_name(text: str, max_chars: int | None) -> str:
    """Escape a name; omit the middle of a name that is longer than `max_chars`."""
    return safe_text(text) if max_chars is None else cut_middle(safe_text(text), max_chars)


def _truncate(text: str, max_chars: int | None = None) -> str:
    """Escape a text; truncate a long text and append its length. max_chars: the limit on a terminal, in characters."""
    escaped = safe_text(text[:_MAX_TEXT_CHARS])
    limit = _MAX_TEXT_CHARS if max_chars is None else min(max_chars, _MAX_TEXT_CHARS)
    if len(text) <= _MAX_TEXT_CHARS and (max_chars is None or len(escaped) <= max_chars):
        return escaped
    length_text = f"… ({len(text):,} characters)"
    return escaped + length_text if max_chars is None else f"{escaped[: max(limit - len(length_text), 1)]}{length_text}"
