"""The fields of any message as rows, with offsets, and values as texts. `set` accepts all except hexadecimal texts."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnxwire
from onnxwire.errors import PathError
from onnxwire.transforms.assign import set_value
from onnxwire.viewer.field_tree import FieldQueries

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
TABLE = """\
# shape.proto

package: geo.shapes
syntax: proto2

## message Shape

A shape.

| number | name | type | label | oneof | packed | since | until | doc |
|--------|------|------|-------|-------|--------|-------|-------|-----|
| 1 | point | message Shape.Point | repeated | | | 1 | | Its points. |
| 2 | name | string | optional | | | 1 | | Its name. |
| 3 | weights | double | repeated | | packed | 1 | | Its weights. |
| 4 | closed | bool | optional | end | | 1 | | Whether it is closed. |
| 5 | turns | sint32 | optional | end | | 1 | | The number of its turns. |
| 6 | data | bytes | optional | | | 1 | | Its data. |
| 7 | kind | enum Kind | optional | | | 1 | | Its kind. |
| 8 | width | float | optional | | | 1 | | Its width. |

## message Shape.Point

A point.

| number | name | type | label | oneof | packed | since | until | doc |
|--------|------|------|-------|-------|--------|-------|-------|-----|
| 1 | x | fixed32 | optional | | | 1 | | Its x coordinate. |
| 2 | tag | bytes | repeated | | | 1 | | Its tags. |

## enum Kind

A kind.

| number | name | since | until | doc |
|--------|------|-------|-------|-----|
| 1 | ROAD | 1 | | A road. |
| 2 | RIVER | 1 | | A river. |
"""


@pytest.fixture
def schema(tmp_path):
    """Return the schema that TABLE defines."""
    (tmp_path / "shape.md").write_text(TABLE)
    return onnxwire.load_schema(tmp_path / "shape.md")


@pytest.fixture
def shape(schema):
    """Return a message with 250 points and an unknown field."""
    message = schema.Shape(name="way", weights=[0.5, 2.0], turns=-3, data=b"\0\xff", kind=2, width=0.1)
    for i in range(250):
        message.point.add(x=i, tag=[b"a", b"\xfe"])
    # Append field 15, which the table does not have.
    data = message.SerializeToString() + b"\x7a\x02hi"
    return schema.Shape.FromString(data)


def rows_of(answer):
    """Return the rows of an answer by path."""
    return {row["path"]: row for row in answer["rows"]}


def test_fields_have_types_values_and_offsets(shape):
    answer = FieldQueries(shape).fields()
    data = shape.SerializeToString()
    rows = rows_of(answer)
    assert (answer["type"], answer["total"], answer["is_edited"]) == ("Shape", 8, False)
    columns = {name: (row["type"], row["label"], row["kind"], row["text"]) for name, row in rows.items()}
    assert columns == {
        "point": ("Point", "repeated", "list", ""),
        "name": ("string", "", "value", "way"),
        "weights": ("double", "repeated", "list", ""),
        "turns": ("sint32", "oneof end", "value", "-3"),
        "data": ("bytes", "", "value", "00 ff"),
        "kind": ("Kind", "", "value", "RIVER (2)"),
        "width": ("float", "", "value", "0.1"),
        None: ("", "", "unknown", ""),
    }
    for name, expected in (("name", b"way"), ("data", b"\0\xff"), (None, b"hi")):
        row = rows[name]
        assert data[row["offset"] : row["offset"] + row["length"]] == expected
    assert [field["name"] for field in answer["absent"]] == ["closed"]
    assert rows["point"]["count"] == 250


def test_elements_come_in_pages_with_their_offsets(shape):
    queries = FieldQueries(shape)
    answer = queries.fields("point", 240, 100)
    assert (answer["total"], len(answer["rows"])) == (250, 10)
    row = answer["rows"][3]
    assert (row["path"], row["text"]) == ("point[243]", "x: 243")
    data = shape.SerializeToString()
    assert data[row["offset"] : row["offset"] + row["length"]] == shape.point[243].SerializeToString()
    tags = queries.fields("point[243].tag")["rows"]
    assert [(tag["text"], data[tag["offset"]]) for tag in tags] == [('"a"', ord("a")), ("fe", 0xFE)]
    assert [row["text"] for row in queries.fields("weights")["rows"]] == ["0.5", "2.0"]
    assert len(queries.fields("point", 0, 1 << 40)["rows"]) == 250
    assert queries.fields("point", -5, -1)["rows"] == []


def test_values_and_absent_messages_have_no_fields(shape):
    for value_path in ("name", "weights[0]", "nothing", "point[999]"):
        with pytest.raises(PathError):
            FieldQueries(shape).fields(value_path)


def test_edited_fields_have_no_offset(shape, schema):
    copy = schema.Shape()
    copy.CopyFrom(shape)
    copy.point[1].x = 7
    queries = FieldQueries(copy)
    rows = queries.fields("point")["rows"]
    assert [row["offset"] is None for row in rows[:3]] == [False, True, False]
    answer = queries.fields("point[1]")
    assert (answer["is_edited"], rows_of(answer)["point[1].x"]["text"]) == (True, "7")


def test_a_message_with_too_many_records_has_no_offsets(shape, schema):
    # 65,536 points without fields, and the shape.
    long_message = schema.Shape.FromString(b"\x0a\x00" * (1 << 16) + shape.SerializeToString())
    rows = rows_of(FieldQueries(long_message).fields())
    assert (rows["name"]["text"], rows["name"]["offset"]) == ("way", None)


@pytest.mark.parametrize(
    ("value_path", "form", "text"),
    [
        ("name", "text", "way"),
        ("weights", "list", "[0.5, 2.0]"),
        ("weights[1]", "text", "2.0"),
        ("turns", "text", "-3"),
        ("data", "hex", "00 ff"),
        ("kind", "text", "RIVER"),
        ("width", "text", "0.1"),
        ("point[2].tag[0]", "text", "a"),
    ],
)
def test_a_value_as_text_is_accepted_by_set(shape, schema, value_path, form, text):
    answer = FieldQueries(shape).value(value_path)
    assert (answer["form"], answer["text"]) == (form, text)
    if form != "hex":  # hexadecimal digits are not a value for `set`
        copy = schema.Shape()
        copy.CopyFrom(shape)
        set_value(copy, value_path, answer["text"])
        assert copy.SerializeToString() == shape.SerializeToString()


@pytest.mark.parametrize(
    ("value_path", "form"),
    [
        ("graph.node[2].attribute[0]", "text"),
        ("graph.node[2].attribute[1]", "list"),
        ("graph.node[2].attribute[2]", "text"),
        ("graph.node[2].input", "list"),
        ("graph.node[2]", "message"),
        ("opset_import[0]", "text"),
        ("graph.initializer[0].data_type", "text"),
        ("graph.initializer[0].dims", "list"),
        ("graph.node[2].metadata_props[0]", "text"),
        ("graph.input[0].type.tensor_type.shape.dim[0]", "text"),
    ],
)
def test_values_of_a_model_as_text_are_accepted_by_set(value_path, form):
    model = onnxwire.load(DIGITS)
    answer = FieldQueries(model).value(value_path)
    assert answer["form"] == form
    bytes_before = model.SerializeToString(deterministic=True)
    set_value(model, value_path, answer["text"])
    assert model.SerializeToString(deterministic=True) == bytes_before


def test_lists_of_texts_keep_commas_quotes_and_brackets():
    for texts in (["a, b", 'c"d', "[e]"], ["{f}"], ["", "ü"], ["[1"]):
        node = onnxwire.NodeProto(input=texts)
        answer = FieldQueries(node).value("input")
        copy = onnxwire.NodeProto(input=["old"])
        set_value(copy, "input", answer["text"])
        assert list(copy.input) == texts


def test_long_and_binary_values_are_not_edited_in_the_page():
    node = onnxwire.NodeProto(doc_string="x" * (1 << 17), input=["y" * (1 << 17)])
    tensor = onnxwire.TensorProto(int64_data=range(1 << 17), string_data=[b"\xff"])
    graph = onnxwire.GraphProto(node=[node])
    for message, value_path in (
        (node, "doc_string"), (node, "input"), (tensor, "int64_data"), (tensor, "string_data"), (graph, "node"),
        (graph, "node[0]"), (graph, ""),
    ):  # fmt: skip
        answer = FieldQueries(message).value(value_path)
        assert (answer["form"], bool(answer["reason"])) == ("none", True)
        assert len(answer["text"]) == 0


def test_the_reason_for_a_list_that_is_too_long_states_the_exceeded_size():
    many_texts = onnxwire.NodeProto(input=[""] * 70_000)
    long_texts = onnxwire.NodeProto(input=["x" * 40_000, "y" * 30_000])
    reasons = [FieldQueries(node).value("input")["reason"] for node in (many_texts, long_texts)]
    assert reasons[0].startswith("it has 70,000 elements,")
    assert reasons[1].startswith("its elements have 70,000 characters,")


def test_rows_truncate_long_values():
    node = onnxwire.NodeProto(doc_string="ü" * 100_000, input=["é" * 100_000])
    tensor = onnxwire.TensorProto(raw_data=bytes(1 << 20))
    assert len(rows_of(FieldQueries(node).fields())["doc_string"]["text"]) < 300
    assert len(FieldQueries(node).fields("input")["rows"][0]["text"]) < 300
    assert "1,048,576 bytes" in rows_of(FieldQueries(tensor).fields())["raw_data"]["text"]
