"""Models, graphs, nodes and tensors in notebooks: short HTML without scripts, and the report in a frame."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from onnxwire.analysis.describe import describe_list, describe_type, operator_of
from onnxwire.analysis.sizes import size_text
from onnxwire.analysis.summary import summarize
from onnxwire.engine.repeated import Repeated
from onnxwire.errors import Error, FieldTypeError, count_text
from onnxwire.io.load import load
from onnxwire.io.tensor_list import is_external, tensor_bytes
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnxwire.tensor.dtypes import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.engine.message import Message
    from onnxwire.io.source import Source

_MAX_ROWS = 12  # maximum number of rows of a table with a title, of shown dims and of shown opsets
_MAX_CHARS = 120  # maximum length of a text; the facts above the tables may have eight times this length
_MAX_COUNTED_NODES = 200_000  # in larger models, operators and tensors are not counted
_MAX_READ_BYTES = 1 << 12  # maximum size of a tensor whose elements are shown
_MAX_ELEMENTS = 8  # maximum number of shown elements of a tensor
_STYLE = "text-align:left;vertical-align:top;font-weight:"  # the style of a cell; the font's weight is appended
_DIRECTION_MARKS = {
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0x200E,
    0x200F,
    0x061C,
}  # marks of the direction of text


class View:
    """A model in a notebook: the report in a frame without scripts. `repr` contains no part of the report.

    page: the HTML of the report. name: the name of the model. height: the height of the frame, in pixels.
    """

    def __init__(self, page: str, name: str, height: int) -> None:
        self._page = page
        self._name = name
        self._height = height

    def __repr__(self) -> str:
        return f"<view of {self._name}; it is shown in notebooks, and `onnxwire view` opens a model in the browser>"

    def _repr_html_(self) -> str:
        """Return a frame that contains the page, and may neither run scripts nor open other pages."""
        style = f"width:100%;height:{self._height}px;border:1px solid #8884;border-radius:6px"
        return f'<iframe sandbox="" srcdoc="{escape(self._page)}" style="{style}" title="onnxwire"></iframe>'


def view(model: Source | ModelProto, *, height: int = 600) -> View:
    """Show a model in a notebook: summary, operators and largest tensors, as `onnxwire view -o report.html` does.

    model: a model, or a source for `load`. height: the height of the frame, in pixels.
    The report is part of the notebook: it needs no server and no network, and remains when the notebook is saved. It
    contains no weights. Raises the errors of `load`, and FieldTypeError for other messages and for a
    height that is not an int.
    """
    from onnxwire.engine.message import Message
    from onnxwire.viewer.html_report import report

    if isinstance(model, Message) and not isinstance(model, ModelProto):
        raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    if type(height) is not int:
        raise FieldTypeError(f"height is a number of pixels, not {type(height).__name__}")
    if isinstance(model, ModelProto):
        return View(report(model), model._document.name, height)
    with load(model) as loaded_model:
        return View(report(loaded_model), loaded_model._document.name, height)


def message_html(message: Message) -> str:
    """Return a message as HTML for notebooks: a few tables without scripts, style sheets or links.

    The length of the HTML is bounded for every message. External data and files on servers are not read. A damaged
    message is shown as its error.
    """
    try:
        if message._document.memory is not None:  # a remote file
            return _message_html(type(message).__name__, repr(message), [])
        if isinstance(message, ModelProto):
            return _model_html(message)
        if isinstance(message, GraphProto | FunctionProto):
            return _graph_html(message)
        if isinstance(message, NodeProto):
            return _node_html(message)
        if isinstance(message, TensorProto):
            return _tensor_html(message)
        rows = [[field.name, _value_text(value)] for field, value in islice(message.ListFields(), 4 * _MAX_ROWS)]
        return _message_html(type(message).__name__, "", [_table_html("", rows)])
    except (Error, OSError) as error:
        return _message_html(type(message).__name__, str(error), [])


def _model_html(model: ModelProto) -> str:
    """Return the properties, inputs, outputs, operators and largest tensors of a model as HTML."""
    graph = model.graph
    opsets = ", ".join(
        f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in islice(model.opset_import, _MAX_ROWS)
    )
    producer = f"{_truncate(model.producer_name)} {_truncate(model.producer_version)}".strip()
    facts = [f"IR {model.ir_version}", opsets, producer, size_text(model.ByteSize())]
    tables = _input_and_output_tables(graph)
    if len(graph.node) <= _MAX_COUNTED_NODES:
        summary = summarize(model)
        nodes, tensors = summary["nodes"], summary["tensors"]
        facts += [count_text(nodes["count"], "node"), count_text(tensors["count"], "tensor")]
        operators = [[row["op_type"], f"{row['count']:,}"] for row in nodes["by_operator"]]
        tensor_rows = [
            [row["name"], f"{row['data_type']} {_shape_text(row['shape'])}", size_text(row["bytes"])]
            for row in tensors["largest"]
        ]
        tables += [_table_html("operators", operators), _table_html("largest tensors", tensor_rows)]
    else:
        facts.append(count_text(len(graph.node), "node"))
    return _message_html("ModelProto", " · ".join(filter(None, facts)), tables)


def _graph_html(graph: GraphProto | FunctionProto) -> str:
    """Return the first nodes of a graph or function as HTML; of a graph also inputs, outputs and initializers."""
    nodes = [[operator_of(node), node.name, _inputs_and_outputs_text(node)] for node in islice(graph.node, _MAX_ROWS)]
    tables = _input_and_output_tables(graph) if isinstance(graph, GraphProto) else []
    tables.append(_table_html("nodes", nodes, len(graph.node)))
    facts = [_truncate(graph.name), count_text(len(graph.node), "node")]
    if isinstance(graph, GraphProto):
        rows = [
            [tensor.name, f"{name_of(tensor.data_type)} {_shape_text(tensor.dims)}", size_text(tensor_bytes(tensor))]
            for tensor in islice(graph.initializer, _MAX_ROWS)
        ]
        tables.append(_table_html("initializers", rows, len(graph.initializer)))
        facts.append(count_text(len(graph.initializer), "initializer"))
    return _message_html(type(graph).__name__, " · ".join(filter(None, facts)), tables)


def _input_and_output_tables(graph: GraphProto) -> list[str]:
    """Return the tables of inputs and outputs."""
    return [
        _table_html(
            title, [[value.name, describe_type(value.type)] for value in islice(values, _MAX_ROWS)], len(values)
        )
        for title, values in (("inputs", graph.input), ("outputs", graph.output))
    ]


def _node_html(node: NodeProto) -> str:
    """Return the operator, inputs, outputs and attributes of a node as HTML."""
    attributes = [[attribute.name, _attribute_text(attribute)] for attribute in islice(node.attribute, _MAX_ROWS)]
    tables = [
        _table_html(field, [[str(i), name] for i, name in enumerate(islice(names, _MAX_ROWS))], len(names))
        for field, names in (("inputs", node.input), ("outputs", node.output))
    ]
    tables.append(_table_html("attributes", attributes, len(node.attribute)))
    return _message_html(
        "NodeProto", " · ".join(filter(None, (_truncate(operator_of(node)), _truncate(node.name)))), tables
    )


def _attribute_text(attribute: Message) -> str:
    """Return the value of an attribute as a text."""
    for field, value in attribute.ListFields():
        if field.name not in ("name", "type", "doc_string"):
            return (
                describe_list(field, value)
                if isinstance(value, Repeated) and not field.message_type
                else _value_text(value)
            )
    return ""


def _tensor_html(tensor: TensorProto) -> str:
    """Return the type, shape and size of a tensor as HTML; of a small tensor also the first elements."""
    size = tensor_bytes(tensor)
    facts = [_truncate(tensor.name), f"{name_of(tensor.data_type)} {_shape_text(tensor.dims)}", size_text(size)]
    if is_external(tensor):
        facts.append("external")
    elif size <= _MAX_READ_BYTES and not tensor.HasField("segment"):
        elements = tensor.numpy().ravel()
        elements_text = ", ".join(_truncate(str(element)) for element in elements[:_MAX_ELEMENTS].tolist())
        facts.append(f"[{elements_text}{', …' if elements.size > _MAX_ELEMENTS else ''}]")
    return _message_html("TensorProto", " · ".join(filter(None, facts)), [])


def _inputs_and_outputs_text(node: NodeProto) -> str:
    """Return the first inputs and outputs of a node: a, b → c."""
    sides = [
        ", ".join(_truncate(name, 40) for name in islice(names, 4)) + (", …" if len(names) > 4 else "")
        for names in (node.input, node.output)
    ]
    return " → ".join(sides)


def _shape_text(dims: Any) -> str:
    return f"[{', '.join(str(dim) for dim in islice(dims, _MAX_ROWS))}{', …' if len(dims) > _MAX_ROWS else ''}]"


def _value_text(value: object) -> str:
    return f"[{count_text(len(value), 'element')}]" if isinstance(value, Repeated) else repr(value)


def _truncate(text: str, max_chars: int = _MAX_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _text_html(text: str) -> str:
    """Return a text as HTML: escaped, truncated, with isolated text direction, without unprintable characters."""
    text = _truncate(text)
    if not text.isprintable() or not _DIRECTION_MARKS.isdisjoint(map(ord, text)):
        text = "".join(
            character if character.isprintable() and ord(character) not in _DIRECTION_MARKS else ascii(character)[1:-1]
            for character in text
        )
    return f"<bdi>{escape(text)}</bdi>"


def _table_html(title: str, rows: Iterable[list[str]], count: int = 0) -> str:
    """Return a table, "" if there are no rows. A table with a title has up to 12 rows, and counts the omitted rows.

    count: the number of all rows, if `rows` contains only the first rows.
    """
    rows = list(rows)
    if not rows:
        return ""
    count = max(count, len(rows))
    lines = [f'<tr><th colspan="9" style="{_STYLE}600">{escape(title)} ({count:,})</th></tr>'] if title else []
    limit = _MAX_ROWS if title else len(rows)
    for row in rows[:limit]:
        lines.append("<tr>" + "".join(f'<td style="{_STYLE}400">{_text_html(cell)}</td>' for cell in row) + "</tr>")
    if count > limit:
        lines.append(f'<tr><td colspan="9" style="{_STYLE}400">and {count - limit:,} more</td></tr>')
    return f'<table style="display:inline-table;margin:4px 16px 4px 0">{"".join(lines)}</table>'


def _message_html(kind: str, facts: str, tables: list[str]) -> str:
    """Return the HTML of a message. kind: its type. facts: its main properties as text. tables: HTML."""
    text = f"<b>{escape(kind)}</b> " + (_text_html(facts) if len(facts) <= _MAX_CHARS else _long_text_html(facts))
    return f'<div class="onnxwire" style="overflow:auto">{text}<div>{"".join(tables)}</div></div>'


def _long_text_html(text: str) -> str:
    """Return the first 960 characters of a text as HTML, in parts that `_text_html` does not truncate."""
    return _text_html(text[:_MAX_CHARS]) + "".join(
        _text_html(text[i : i + _MAX_CHARS]) for i in range(_MAX_CHARS, min(len(text), 8 * _MAX_CHARS), _MAX_CHARS)
    )
