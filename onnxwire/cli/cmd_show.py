"""`onnxwire show`: print any message, value or tensor of a model by its path or name."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from dataclasses import asdict
from typing import Any

from onnxwire.analysis.describe import (
    describe_bytes,
    describe_call,
    describe_list,
    describe_number,
    describe_type,
    describe_value,
    operator_of,
)
from onnxwire.analysis.listing import tensor_rows
from onnxwire.analysis.paths import IndexItem, Resolved, resolve
from onnxwire.analysis.sizes import size_text
from onnxwire.analysis.statistics import Histogram, Statistics, measure
from onnxwire.cli.options import add_command, add_external_root, add_progress, add_type, make_number_parser
from onnxwire.cli.progress import progress_bar
from onnxwire.cli.rows import describe_location
from onnxwire.cli.terminal import Paint, add_color, json_numbers, make_painter, number_text, safe_text, table_lines
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload
from onnxwire.engine.repeated import Repeated
from onnxwire.errors import PathError, count_text
from onnxwire.io.load import load
from onnxwire.io.remote.address import shown_source
from onnxwire.io.tensor_list import TensorInfo, describe
from onnxwire.messages import SCHEMA, AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.storage import count_elements, data_type_of, expand_index
from onnxwire.text.json_writer import to_json

_DESCRIPTION = """\
Print any part of a model: a message, a node, an attribute, a value, or a tensor with statistics of its elements. No
weights outside of PATH are read.
"""
_EXAMPLES = """\
examples:
  onnxwire show model.onnx graph.node[12]
  onnxwire show model.onnx node:/layers.0/MatMul       a node by its name, or by one of its outputs
  onnxwire show model.onnx node:/layers.0/Conv.attribute[pads].ints
  onnxwire show model.onnx tensor:layers.0.weight      range, mean, NaNs and a histogram
  onnxwire show model.onnx 'tensor:w0[0:4,:8]'         a slice, and its statistics
  onnxwire show model.onnx graph.initializer[3].dims
  onnxwire show model.onnx 'graph.node[3:6]'
  onnxwire show model.onnx metadata_props[author].value
  onnxwire show tensor.pb --type TensorProto

A PATH consists of .field, [index], [first:end] and [name], or begins with node:, tensor:, input:, output:, value: or
function: and a name, optionally in "double quotes". Without a PATH the whole message is printed.
"""
_MAX_ELEMENTS = 20  # maximum number of printed elements of a field in a message
_MAX_VALUES = 1000  # maximum number of printed elements of a selected part of a tensor
_MAX_UNSELECTED_VALUES = 64  # maximum size of a tensor whose elements are all printed without an index
_MAX_BYTES = 256  # maximum number of printed bytes of a field
_MAX_TEXT_CHARS = 100  # maximum length of a string in a printed line; half the length limit of `format_line`
_MAX_ATTRIBUTE_VALUES = 8  # maximum size of a tensor in an attribute whose elements are printed
_MAX_JSON_VALUES = 1 << 20  # maximum number of elements of a tensor in JSON
_MAX_JSON_BYTES = 1024  # in JSON of a message: maximum bytes of a value, and maximum elements of a list of numbers
_BARS = "▏▎▍▌▋▊▉█"  # bars of one to eight eighths of a character


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "show", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("path", metavar="PATH", nargs="?", default="")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--bins",
        metavar="N",
        type=make_number_parser(0, 4096, "bins"),
        default=16,
        help="number of bins of the histogram; default: 16",
    )
    parser.add_argument("--no-stats", action="store_true", help="print no statistics and no histogram")
    add_external_root(parser)
    add_progress(parser)
    add_type(parser, "the message in the file, such as TensorProto; default: ModelProto")
    add_color(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the element at the path; returns the exit status."""
    cls = SCHEMA.messages[f"onnx.{options.type}"]
    with load(options.file, cls, external_root=options.external_root) as message:
        _print(message, options)
    return 0


def _print(message: Message, options: argparse.Namespace) -> None:
    """Print the element at the path.

    This is a separate function, since the model can't be closed while a local variable refers to its bytes.
    """
    target = resolve(message, options.path)
    if options.json:
        print(json.dumps(_as_json(target, options), indent=2, allow_nan=False))
    else:
        for line in _lines(target, options, make_painter(options.color)):
            print(line)


# --- JSON


def _as_json(target: Resolved, options: argparse.Namespace) -> dict[str, Any]:
    """Return the element at a path as a value for JSON."""
    value = target.value
    row: dict[str, Any] = {"path": target.path}
    if isinstance(value, TensorProto):
        tensor_info = describe(value, target.path)
        row |= {"message": "TensorProto", **next(tensor_rows(value)), "path": tensor_info.path}
        if target.index is not None:
            row["index"] = _index_text(target.index)
        if not options.no_stats and value.data_type != STRING.number:
            row["statistics"] = json_numbers(asdict(_measure(target, options)))
        if target.index is not None:
            shape = _check_index(target)[1]
            if math.prod(shape) > _MAX_JSON_VALUES:
                reason = f"these are {math.prod(shape):,} elements; select up to {_MAX_JSON_VALUES:,}"
                raise PathError(reason, options.path, shown_source(options.file))
            array = value.read(target.index)
            row |= {"shape_of_values": shape, "values": json_numbers(_to_list(array))}
        return row
    if isinstance(value, Message):
        span = value._span
        position = {"offset": span[0], "bytes": span[1] - span[0]} if span is not None else {}
        return row | {"message": value.DESCRIPTOR.name, **position, "value": _message_json(value)}
    if isinstance(value, Repeated | list):
        return row | {"value": [_element_json(element) for element in value]}
    return row | {"is_set": target.is_set, "value": _element_json(value)}


def _message_json(message: Message) -> Any:
    return json.loads(to_json(message, max_bytes=_MAX_JSON_BYTES))


def _element_json(value: Any) -> Any:
    """Return a value of a field for JSON; of bytes, the length and the first bytes."""
    if isinstance(value, Message):
        return _message_json(value)
    if isinstance(value, bytes | Payload | memoryview):
        data = memoryview(value)
        return {"bytes": len(data), "hex": bytes(data[:_MAX_BYTES]).hex()}
    return json_numbers(value)


def _to_list(array: Any) -> Any:
    """Convert an array to nested lists for JSON; a complex number is [real, imaginary]."""
    if array.dtype.kind == "c":
        return array.view(f"f{array.dtype.itemsize // 2}").reshape([*array.shape, 2]).tolist()
    # Arrays of ml_dtypes are first converted to a type of numpy.
    if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8", "float6", "float4")):
        return array.astype("f4").tolist()
    if array.dtype.name.startswith(("int", "uint")) and array.dtype.kind not in "iu":
        return array.astype("i8").tolist()
    return array.tolist()


# --- text


def _lines(target: Resolved, options: argparse.Namespace, paint: Paint) -> list[str]:
    """Format the element as lines of text."""
    value = target.value
    if isinstance(value, TensorProto):
        return _tensor_lines(target, options, paint)
    if isinstance(value, NodeProto):
        return _heading(target, paint) + _node_lines(value, target.parent, paint)
    if isinstance(value, Message):
        return _heading(target, paint) + _field_lines(value, paint)
    if isinstance(value, bytes | Payload | memoryview):
        return _byte_lines(memoryview(value))
    if isinstance(value, Repeated | list):
        format_index = _make_index_formatter(target)
        if target.field is not None and not target.field.is_span:
            return [describe_number(target.field, entry) for entry in value]
        return [f"{format_index(i)}{format_line(entry, target.field)}" for i, entry in enumerate(value)]
    if isinstance(value, str):
        # Text is escaped only on a terminal, so that scripts get the unchanged text.
        return [safe_text(value) if sys.stdout.isatty() else value]
    return [describe_number(target.field, value) if target.field is not None else str(value)]


def _make_index_formatter(target: Resolved) -> Any:
    """Return a function that formats the index of an element. Elements of a slice keep their index in the field."""
    if isinstance(target.value, list) and target.parent is not None and target.field is not None:
        bounds = [int(end) if end else None for end in target.path.rpartition("[")[2].rstrip("]").split(":")]
        indices = range(len(getattr(target.parent, target.field.name)))[slice(*bounds)]
        return lambda i: f"[{indices[i]}]  "
    return lambda i: f"[{i}]  "


def _heading(target: Resolved, paint: Paint) -> list[str]:
    """Return the title line of a message: path, type, name, size and offset."""
    message: Message = target.value
    span = message._span
    name = getattr(message, "name", "") if "name" in message.DESCRIPTOR.fields_by_name else ""
    position = f", {span[1] - span[0]:,} bytes at {span[0]:,}" if span is not None else ""
    title = f"{target.path or message._document.name}: {message.DESCRIPTOR.name}{f' {name}' if name else ''}"
    return [paint(safe_text(title), "bold") + (position if target.is_set else ", not set")]


def _field_lines(message: Message, paint: Paint, skip: tuple[str, ...] = ()) -> list[str]:
    """Format each present field as a line, and the first elements of repeated ones. skip: names to omit."""
    lines = []
    for field in message.DESCRIPTOR.fields:
        if field.name in skip:
            continue
        key = paint(f"{field.name:<15} ", "cyan")
        if field.type == field.TYPE_BYTES and not field.is_repeated:
            payload = message._payload(field.name)
            if payload is not None:
                lines.append(f"{key}{format_line(payload, field)}")
        elif not field.is_repeated:
            if message.HasField(field.name):
                lines.append(f"{key}{format_line(getattr(message, field.name), field)}")
        elif values := getattr(message, field.name):
            if not field.is_span:
                lines.append(f"{key}{describe_list(field, values, _MAX_ELEMENTS)}")
                continue
            lines.append(f"{key}{len(values):,}")
            lines += [f"  [{i}]  {format_line(value, field)}" for i, value in enumerate(values[:_MAX_ELEMENTS])]
            if len(values) > _MAX_ELEMENTS:
                lines.append(
                    f"  and {len(values) - _MAX_ELEMENTS:,} more; select some, such as {field.name}[{_MAX_ELEMENTS}:40]"
                )
    return lines


def format_line(value: Any, field: FieldDescriptor | None = None) -> str:
    """Format a message, or a value of a field, as one line."""
    if isinstance(value, NodeProto):
        text = f"{value.name or '-'}  {describe_call(value)}"
    elif isinstance(value, AttributeProto):
        text = f"{value.name} = {_attribute_text(value)}"
    elif isinstance(value, TensorProto):
        text = f"{value.name or '-'}  {_tensor_type(value)}"
    elif isinstance(value, ValueInfoProto):
        text = f"{value.name}  {describe_type(value.type)}"
    elif isinstance(value, TypeProto):
        text = describe_type(value)
    elif isinstance(value, GraphProto):
        nodes, tensors = count_text(len(value.node), "node"), count_text(len(value.initializer), "tensor")
        text = f"{value.name or '-'}  {nodes}, {tensors}"
    elif isinstance(value, Message):
        singular_fields = [entry for entry in value.DESCRIPTOR.fields if not entry.is_repeated]
        shown_fields = [entry for entry in singular_fields if value.HasField(entry.name) and entry.name != "raw_data"]
        parts = [f"{entry.name}={format_line(getattr(value, entry.name), entry)}" for entry in shown_fields]
        text = " ".join(parts) or value.DESCRIPTOR.name
    else:
        assert field is not None
        text = describe_value(field, value, _MAX_TEXT_CHARS, quoted=True)
    return safe_text(text if len(text) <= 2 * _MAX_TEXT_CHARS else text[: 2 * _MAX_TEXT_CHARS] + "…")


def _tensor_type(tensor: TensorProto) -> str:
    row = next(tensor_rows(tensor))
    return f"{row['type']} {row['shape']}"


def _attribute_text(attribute: AttributeProto) -> str:
    """Format all values of an attribute, regardless of its type field."""
    parts = []
    for field in attribute.DESCRIPTOR.fields:
        if field.name in ("name", "type", "doc_string", "ref_attr_name"):
            continue
        if field.is_repeated:
            values = getattr(attribute, field.name)
            if not values:
                continue
            if field.message_type is None:
                parts.append(describe_list(field, values, _MAX_ELEMENTS))
            else:
                suffix = ", …" if len(values) > _MAX_ELEMENTS else ""
                parts.append(f"[{', '.join(format_line(value) for value in values[:_MAX_ELEMENTS])}{suffix}]")
        elif Message.HasField(attribute, field.name):
            value = getattr(attribute, field.name)
            if field.name == "t":
                parts.append(f"{_tensor_type(value)}{_few_values(value)}")
            else:
                parts.append(format_line(value, field))
    if attribute.ref_attr_name:
        parts.append(f"the attribute {attribute.ref_attr_name} of the function")
    if not parts:
        type_field = AttributeProto.DESCRIPTOR.fields_by_name["type"]
        name = describe_number(type_field, attribute.type)
        # The names of types of lists end with S: INTS.
        parts.append("[]" if name.endswith("S") else f"no value ({name})")
    return ", ".join(parts)


def _few_values(tensor: TensorProto) -> str:
    """Return a space and the elements of a small tensor; "" for large, empty and external tensors."""
    if len(tensor.external_data):
        return ""
    if not 0 < count_elements(tensor, data_type_of(tensor)) <= _MAX_ATTRIBUTE_VALUES:
        return ""
    return f" {json.dumps(json_numbers(_to_list(tensor.numpy())))}"


def _node_lines(node: NodeProto, graph: Message | None, paint: Paint) -> list[str]:
    """Format a node: its operator, its inputs and outputs with their types in `graph`, and its other fields."""
    lines = [f"{paint('operator'.ljust(16), 'cyan')}{safe_text(operator_of(node))}"]
    descriptions = _describe_values(graph, {*node.input, *node.output}) if graph is not None else {}
    for field in ("input", "output"):
        names = list(getattr(node, field))
        lines.append(f"{paint(f'{field:<15} ', 'cyan')}{len(names)}")
        rows = [
            [f"  [{i}]", safe_text(name) or "(omitted)", *descriptions.get(name, ("", ""))]
            for i, name in enumerate(names)
        ]
        lines += table_lines(rows)
    return lines + _field_lines(node, paint, ("name", "op_type", "domain", "input", "output"))


def _describe_values(graph: Message, names: set[str]) -> dict[str, tuple[str, str]]:
    """Return the types of some values of a graph, and the paths of their descriptions in the graph, by name."""
    descriptions: dict[str, tuple[str, str]] = {}
    if "value_info" not in graph.DESCRIPTOR.fields_by_name:
        return descriptions
    for field in ("initializer", "input", "output", "value_info"):
        for i, value in enumerate(getattr(graph, field, ())):
            if value.name in names and value.name not in descriptions:
                type_text = _tensor_type(value) if field == "initializer" else describe_type(value.type)
                descriptions[value.name] = (safe_text(type_text), f"{field}[{i}]")
    return descriptions


def _byte_lines(data: memoryview) -> list[str]:
    """Format the first bytes in hexadecimal and as characters."""
    lines = []
    for start in range(0, min(len(data), _MAX_BYTES), 16):
        part = bytes(data[start : start + 16])
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {text}")
    if len(data) > _MAX_BYTES:
        more_bytes = count_text(len(data) - _MAX_BYTES, "more byte")
        lines.append(f"and {more_bytes}; select some, such as [{_MAX_BYTES}:512]")
    return lines


# --- tensors


def _check_index(target: Resolved) -> tuple[list[range], list[int]]:
    """Return the selected indices on each axis, and the shape of the selection. Raises PathError for a wrong index."""
    tensor: TensorProto = target.value
    try:
        return expand_index(target.index if target.index is not None else ..., tuple(tensor.dims))
    except (IndexError, ValueError) as error:
        reason = f"{error}; the shape is {list(tensor.dims)}"
        raise PathError(reason, f"{target.path}{_index_text(target.index)}", tensor._document.name) from None


def _index_text(index: tuple[IndexItem, ...] | None) -> str:
    """Format an index of a tensor: [0:4,:8]."""
    parts = []
    for part in index or ():
        if isinstance(part, slice):
            ends = ["" if end is None else str(end) for end in (part.start, part.stop)]
            parts.append(":".join(ends) + (f":{part.step}" if part.step is not None else ""))
        else:
            parts.append("..." if part is ... else str(part))
    return f"[{','.join(parts)}]"


def _measure(target: Resolved, options: argparse.Namespace) -> Statistics:
    if target.index is not None:
        _check_index(target)
    with progress_bar("reading", not options.no_progress) as progress:
        return measure(target.value, target.index, bins=options.bins, progress=progress)


def _tensor_lines(target: Resolved, options: argparse.Namespace, paint: Paint) -> list[str]:
    """Format a tensor, or a slice: its type, location, statistics, histogram and first elements."""
    tensor: TensorProto = target.value
    tensor_info: TensorInfo = describe(tensor, target.path)
    row = next(tensor_rows(tensor))
    lines = _heading(target, paint)
    rows = [("type", row["type"]), ("shape", str(list(tensor_info.shape)))]
    rows += [("bytes", f"{size_text(tensor_info.nbytes)}, {describe_location(row, options.file)}")]
    if tensor.doc_string:
        rows.append(("doc", tensor.doc_string))
    ranges, shape = _check_index(target)
    if target.index is not None:
        rows.append(("chosen", f"{_index_text(target.index)}, shape {shape}"))
    statistics = None
    if not options.no_stats and tensor.data_type != STRING.number:
        statistics = _measure(target, options)
        rows += statistics_rows(statistics)
    lines += [f"{paint(f'{key:<15} ', 'cyan')}{safe_text(text)}" for key, text in rows]
    # A histogram of equal elements would be a single bar.
    if statistics is not None and statistics.histogram is not None and statistics.min != statistics.max:
        histogram = statistics.histogram
        is_discrete = isinstance(statistics.max, int) and histogram.high == statistics.max + 1
        lines += ["", *histogram_lines(histogram, paint, is_discrete=is_discrete)]
    return lines + _value_lines(target, ranges, shape, paint)


def statistics_rows(statistics: Statistics) -> list[tuple[str, str]]:
    """Format statistics as keys and texts."""
    rows = [("elements", f"{statistics.count:,}")] if statistics.count else [("elements", "none")]
    for key in ("min", "max", "mean", "std"):
        value = getattr(statistics, key)
        rows += [(key, number_text(value))] if value is not None else []
    zeros_text = f"  ({statistics.zeros / statistics.count:.1%})" if statistics.zeros else ""
    rows += [
        ("zeros", f"{statistics.zeros:,}{zeros_text}"),
        ("NaN", f"{statistics.nan:,}"),
        ("Inf", f"{statistics.inf:,}"),
    ]
    return rows


def histogram_lines(histogram: Histogram, paint: Paint, width: int = 40, is_discrete: bool = False) -> list[str]:
    """Format a histogram as bars: one line per bin, with its lower edge and its number of elements.

    width: the length of the longest bar, in characters. is_discrete: each bin is one integer, so the upper edge of the
    last bin is not printed.
    """
    max_count = max(histogram.counts) or 1
    edges = histogram.edges
    is_whole = all(edge == int(edge) for edge in edges)
    starts = [f"{int(edge)}" if is_whole else f"{edge:.4g}" for edge in edges]
    start_width = max(map(len, starts))
    counts = [f"{count:,}" for count in histogram.counts]
    lines = []
    for start, count, text in zip(starts, histogram.counts, counts, strict=False):
        # Rounded up, so that each bin with elements has a visible bar.
        eighths = -(-count * width * 8 // max_count)
        bar = "█" * (eighths // 8) + (_BARS[eighths % 8 - 1] if eighths % 8 else "")
        lines.append(
            f"{start:>{start_width}} {paint(bar, 'blue')}{' ' * (width - len(bar))} {text:>{max(map(len, counts))}}"
        )
    if not is_discrete:
        lines.append(f"{starts[-1]:>{start_width}}")
    return lines


def _value_lines(target: Resolved, ranges: list[range], shape: list[int], paint: Paint) -> list[str]:
    """Format the selected elements of a tensor.

    If there are too many, only the first ones are printed, along the last two axes that have several elements.

    ranges: the selected coordinates on each axis. shape: the shape of the selection.
    """
    import numpy as np

    tensor: TensorProto = target.value
    count = math.prod(shape)
    if not count:
        return []
    max_values = _MAX_VALUES if target.index is not None else _MAX_UNSELECTED_VALUES
    shown_index: Any = target.index if target.index is not None else ...
    title = f"values {_index_text(target.index)}" if target.index is not None else "values"
    if count > max_values:
        # Print up to 4 rows and 8 columns of the last two axes that have several elements.
        shown_axes = [axis for axis, axis_range in enumerate(ranges) if len(axis_range) > 1][-2:]
        sizes_by_axis = dict(zip(shown_axes, (8,) if len(shown_axes) == 1 else (4, 8), strict=True))
        parts: list[IndexItem] = []
        for axis, axis_range in enumerate(ranges):
            shown_range = axis_range[: sizes_by_axis.get(axis, 1)]
            if axis not in sizes_by_axis:
                parts.append(shown_range[0])
            else:
                parts.append(
                    slice(
                        shown_range.start,
                        shown_range.stop if shown_range.stop >= 0 else None,
                        None if shown_range.step == 1 else shown_range.step,
                    )
                )
        shown_index, title = tuple(parts), f"values {_index_text(tuple(parts))} of {count:,}"
    if tensor.data_type == STRING.number:
        array = tensor.numpy(strings="bytes")[shown_index]
        texts = [
            describe_bytes(value[: 4 * _MAX_TEXT_CHARS], len(value), _MAX_TEXT_CHARS)
            for value in np.asarray(array, object).reshape(-1)
        ]
        return ["", paint(title, "bold"), *texts]
    array = tensor.read(shown_index)
    width = max(shutil.get_terminal_size((120, 24)).columns, 40)
    text = np.array2string(array, max_line_width=width, separator=" ", threshold=_MAX_VALUES + 1)
    return ["", paint(title, "bold"), *text.split("\n")]
