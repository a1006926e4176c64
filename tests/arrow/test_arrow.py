"""Tables of models, compared with rows that are made from messages, and read by Arrow libraries."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pytest
import wire
from everything import EVERYTHING
from graphs import nested_model, value, write_sparse_model
from hypothesis import example, given
from onnx import TensorProto, helper, numpy_helper
from wire import LEN, len_record, tag, varint

import onnxwire
from onnxwire.arrow.tables import TABLES

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
FOREST = DIGITS.parent / "iris_forest.onnx"


# --- expected rows, made from messages


def expected_text(string):
    """Return the expected value of a string column for a str or bytes of a message."""
    data = string if isinstance(string, bytes) else string.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace")


def optional_value(message, name):
    """Return the expected value of a column for a singular field; None if the field is absent."""
    if not message.HasField(name):
        return None
    field_value = getattr(message, name)
    return expected_text(field_value) if isinstance(field_value, str | bytes) else field_value


def walk(message, path=(), graph_path=None, parent_step=None):
    """Yield every message, its path, the path of its graph or function, and (parent, field name, index).

    The path of the graph or function is None outside of them; the last item is None for the root.
    """
    if message.DESCRIPTOR.name in ("GraphProto", "FunctionProto"):
        graph_path = path
    yield message, path, graph_path, parent_step
    for field in message.DESCRIPTOR.fields:
        if field.message_type is None:
            continue
        if field.is_repeated:
            for index, element in enumerate(getattr(message, field.name)):
                yield from walk(element, (*path, f"{field.name}[{index}]"), graph_path, (message, field.name, index))
        elif message.HasField(field.name):
            child = getattr(message, field.name)
            yield from walk(child, (*path, field.name), graph_path, (message, field.name, 0))


def join_path(path):
    return None if path is None else ".".join(path)


def type_text(type):
    """Return the expected text of a TypeProto; None if its oneof `value` is not set."""
    kind = type.WhichOneof("value")
    if kind is None:
        return None
    type_value = getattr(type, kind)
    if kind in ("tensor_type", "sparse_tensor_type"):
        name = {0: "undefined"}.get(type_value.elem_type) or str(type_value.elem_type)
        if type_value.elem_type in onnx.TensorProto.DataType.values():
            name = onnx.TensorProto.DataType.Name(type_value.elem_type).lower()
        return f"{'sparse_' if kind[0] == 's' else ''}tensor({name})"
    if kind == "map_type":
        key = type_value.key_type
        key = onnx.TensorProto.DataType.Name(key) if key in onnx.TensorProto.DataType.values() else str(key)
        value = (type_text(type_value.value_type) if type_value.HasField("value_type") else None) or "?"
        return f"map({key.lower()},{value})"
    if kind == "opaque_type":
        return "opaque"
    element = (type_text(type_value.elem_type) if type_value.HasField("elem_type") else None) or "?"
    return f"{'seq' if kind == 'sequence_type' else 'optional'}({element})"


def shape_of(type):
    """Return the expected values of the columns shape and dims for a TypeProto."""
    kind = type.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type") or not getattr(type, kind).HasField("shape"):
        return None, None
    shape = getattr(type, kind).shape
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in shape.dim]
    dims = [
        str(dim.dim_value)
        if dim.HasField("dim_value")
        else expected_text(dim.dim_param)
        if dim.HasField("dim_param")
        else None
        for dim in shape.dim
    ]
    return sizes, dims


LIST_FIELD_TYPES = {"ints": 7, "floats": 6, "strings": 8}  # field → its AttributeProto.AttributeType


def expected_rows(root, table):
    """Return the expected rows of a table, without the columns offset and bytes."""
    rows = []
    for message, path, graph_path, parent_step in walk(root):
        name, field_step = message.DESCRIPTOR.name, parent_step[1] if parent_step else None
        owner = parent_step[0].DESCRIPTOR.name if parent_step else None
        if table == "nodes" and name == "NodeProto":
            row = {key: optional_value(message, key) for key in ("name", "op_type", "domain", "overload", "doc_string")}
            row |= {
                "graph": join_path(graph_path),
                "index": parent_step[2] if parent_step else 0,
                "attributes": len(message.attribute),
            }
            row |= {
                "inputs": list(map(expected_text, message.input)),
                "outputs": list(map(expected_text, message.output)),
            }
        elif table == "attributes" and name == "AttributeProto":
            row = {key: optional_value(message, key) for key in ("name", "i", "f", "s", "ref_attr_name")}
            row |= {"graph": join_path(graph_path), "node": None}
            if owner == "NodeProto":
                row["node"] = next(
                    (int(path_step[:-1].rpartition("[")[2]) for path_step in path[-2:-1] if path_step.endswith("]")), 0
                )
            row["type"] = onnx.AttributeProto.AttributeType.Name(message.type) if message.HasField("type") else None
            for key, number in LIST_FIELD_TYPES.items():
                items = [expected_text(item) if key == "strings" else item for item in getattr(message, key)]
                row[key] = items if items or message.type == number else None
        elif table == "values" and name == "ValueInfoProto":
            row = {"graph": join_path(graph_path), "kind": field_step, "name": optional_value(message, "name")}
            row["type"] = type_text(message.type) if message.HasField("type") else None
            row["shape"], row["dims"] = shape_of(message.type)
        elif table == "opsets" and name == "OperatorSetIdProto" and owner in (None, "ModelProto"):
            row = {key: optional_value(message, key) for key in ("domain", "version")}
        elif table == "metadata" and name == "StringStringEntryProto" and field_step in (None, "metadata_props"):
            row = {"path": join_path(path[:-1])} | {key: optional_value(message, key) for key in ("key", "value")}
        elif table == "functions" and name == "FunctionProto":
            row = {key: optional_value(message, key) for key in ("domain", "name", "overload")}
            row |= {"index": parent_step[2] if parent_step else 0, "nodes": len(message.node)}
            row |= {
                "inputs": list(map(expected_text, message.input)),
                "outputs": list(map(expected_text, message.output)),
            }
            row["attributes"] = [
                *map(expected_text, message.attribute),
                *(expected_text(default.name) for default in message.attribute_proto if default.HasField("name")),
            ]
        elif table == "model" and name == "ModelProto":
            keys = ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string")
            row = {key: optional_value(message, key) for key in keys}
            row |= {"graph_name": optional_value(message.graph, "name"), "nodes": len(message.graph.node)}
            row["functions"] = len(message.functions)
        else:
            continue
        rows.append(row)
    return rows


def rows_of(source, table, **options):
    columns = onnxwire.to_arrow(source, table, **options).to_pydict()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def without_columns(rows, *keys):
    return [{key: item for key, item in row.items() if key not in keys} for row in rows]


def assert_equal_rows(rows, expected):
    """Assert that rows are equal. Floats are compared by their bits."""

    def with_bytes_of_floats(row):
        return {
            key: np.float32(item).tobytes() if key == "f" and item is not None
            else np.array(item, np.float32).tobytes() if key == "floats" and item is not None
            else item
            for key, item in sorted(row.items())
        }  # fmt: skip

    assert list(map(with_bytes_of_floats, rows)) == list(map(with_bytes_of_floats, expected))


# The tables that expected_rows supports.
MESSAGE_TABLES = ["nodes", "attributes", "values", "opsets", "metadata", "functions", "model"]


def make_complete_model():
    """Make a model with values of many types, attributes, subgraphs, functions, metadata and a training graph."""
    model = nested_model()
    types = [
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2, "n"])),
        helper.make_map_type_proto(7, helper.make_sequence_type_proto(helper.make_tensor_type_proto(8, None))),
        helper.make_optional_type_proto(helper.make_tensor_type_proto(16, [])),
        helper.make_sparse_tensor_type_proto(10, ["a name that is longer than twelve bytes", 7, None]),
        helper.make_tensor_type_proto(25, []),
        helper.make_tensor_type_proto(99, None),
        onnx.TypeProto(),
    ]
    for number, type in enumerate(types):
        model.graph.value_info.append(helper.make_value_info(f"value {number}, which has a name of some length", type))
    model.graph.value_info.add(name="bare")
    node = model.graph.node.add(op_type="Ω" * 9, domain="", doc_string="", input=["", "x", "äöüßäöüß" * 3])
    for name, item in {
        "f": 0.1, "i": -(1 << 63), "s": "äh", "none": b"", "floats": [1.5, float("inf")], "ints": [0, -1, 1 << 62],
        "strings": ["", "a string of more than twelve bytes"], "t": numpy_helper.from_array(np.ones(3, np.int8), "t"),
    }.items():  # fmt: skip
        node.attribute.append(helper.make_attribute(name, item))
    node.attribute.append(onnx.AttributeProto(name="empty", type=onnx.AttributeProto.INTS))
    node.attribute.append(onnx.AttributeProto(name="untyped", i=3))
    model.functions[0].attribute.extend(["alpha", "an attribute with a longer name"])
    model.functions[0].attribute_proto.append(helper.make_attribute("beta", 2.5))
    model.functions[0].value_info.append(value("b", 2))
    for owner in (model, model.graph, model.graph.node[1], model.functions[1], model.graph.value_info[0]):
        owner.metadata_props.add(key="where", value=owner.DESCRIPTOR.name * 3)
    model.training_info.add().algorithm.node.add(op_type="Step", input=["w"], output=["v"])
    return model


# --- rows


@pytest.mark.parametrize("table", MESSAGE_TABLES)
@pytest.mark.parametrize("strings", ["utf8_view", "utf8"])
def test_rows_are_those_of_the_messages(table, strings):
    data = make_complete_model().SerializeToString()
    expected = expected_rows(onnxwire.ModelProto.FromString(data), table)
    assert expected
    assert_equal_rows(without_columns(rows_of(data, table, strings=strings), "offset", "bytes"), expected)


def test_rows_of_a_long_graph_are_those_of_the_messages():
    """Test long columns: without nulls, with a first value after many nulls, and with more list
    elements than the column allocates at first."""
    # The fields of a node are input (1), name (3), op_type (4), doc_string (6) and domain (7).
    count = 45_000
    nodes = [
        len_record(3, b"a name that is not short %d" % index)
        + len_record(4, b"Add")
        + b"".join(len_record(1, b"a value that is not short %d" % (index - distance)) for distance in range(index % 5))
        + (len_record(6, b"early") if index == 300 else b"")
        + (len_record(7, b"late") if index == count - 1 else b"")
        for index in range(count)
    ]
    data = len_record(7, b"".join(len_record(1, node) for node in nodes))
    rows = rows_of(data, "nodes")
    assert_equal_rows(
        without_columns(rows, "offset", "bytes"), expected_rows(onnxwire.ModelProto.FromString(data), "nodes")
    )
    table = pa.table(onnxwire.to_arrow(data, "nodes"))
    table.validate(full=True)
    assert_equal_rows(table.to_pylist(), rows)


@given(wire.valid_wire(onnxwire.GraphProto.DESCRIPTOR))
@example(
    len_record(1, len_record(5, len_record(7, b"") + len_record(8, b"")))
)  # packed records without numbers in floats (7) and ints (8)
def test_rows_of_random_graphs_are_those_of_the_messages(data):
    graph = onnxwire.GraphProto.FromString(data)
    for table in ("nodes", "attributes", "values", "metadata"):
        assert_equal_rows(without_columns(rows_of(graph, table), "offset", "bytes"), expected_rows(graph, table))


@given(wire.damaged_wire(onnxwire.ModelProto.DESCRIPTOR))
def test_damaged_bytes_raise_or_make_valid_tables(data):
    for table in TABLES:
        try:
            arrow_table = onnxwire.to_arrow(bytearray(data), table)
        except onnxwire.DecodeError:
            continue
        pa.table(arrow_table).validate(full=True)


@pytest.mark.parametrize("table", TABLES)
def test_pyarrow_reads_the_same_as_python(table):
    data = make_complete_model().SerializeToString()
    table_with_views = pa.table(onnxwire.to_arrow(data, table))
    table_with_views.validate(full=True)
    assert_equal_rows(table_with_views.to_pylist(), rows_of(data, table))
    table_with_copies = pa.table(onnxwire.to_arrow(data, table, strings="utf8"))
    table_with_copies.validate(full=True)
    assert_equal_rows(table_with_copies.to_pylist(), rows_of(data, table))
    assert {str(field.type) for field in table_with_copies.schema} <= {
        "string", "int64", "int32", "float", "list<item: string>", "list<item: int64>", "list<item: float>",
    }  # fmt: skip


def test_offsets_and_sizes_are_those_of_the_messages():
    data = make_complete_model().SerializeToString()
    rows = rows_of(data, "nodes")
    for row in rows:
        node = onnx.NodeProto.FromString(data[row["offset"] : row["offset"] + row["bytes"]])
        assert (node.op_type, list(node.output)) == (row["op_type"], row["outputs"])
    assert rows_of(data, "model")[0]["bytes"] == len(data)


def make_model_of_tensors():
    """Return a model with tensors whose data is in raw_data, in other fields or external, and with invalid tensors."""
    raw_tensor = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "raw")
    typed_tensor = onnx.TensorProto(name="typed", data_type=TensorProto.INT4, dims=[3], int32_data=[1, 2])
    string_tensor = onnx.TensorProto(name="strings", data_type=TensorProto.STRING, dims=[2], string_data=[b"abc", b""])
    untyped_tensor = onnx.TensorProto(name="bare")
    tensor_of_unknown_type = onnx.TensorProto(name="odd", data_type=77, dims=[4, -1])
    huge_tensor = onnx.TensorProto(name="huge", data_type=TensorProto.UINT8, dims=[1 << 31, 1 << 31])
    tensors = [raw_tensor, typed_tensor, string_tensor, untyped_tensor, tensor_of_unknown_type, huge_tensor]
    for entries in ({"location": "w.data", "offset": "4096", "length": "24"}, {"location": "w.data"}, {"offset": "7"},
                    {"location": "x", "offset": "-1", "length": "9" * 30}):  # fmt: skip
        tensor = onnx.TensorProto(
            name="external", data_type=TensorProto.FLOAT, dims=[6], data_location=TensorProto.EXTERNAL
        )
        for key, item in entries.items():
            tensor.external_data.add(key=key, value=item)
        tensors.append(tensor)
    model = make_complete_model()
    model.graph.initializer.extend(tensors)
    model.graph.sparse_initializer.add(values=raw_tensor, indices=numpy_helper.from_array(np.array([1, 2]), "at"))
    return model


@pytest.mark.parametrize("n_added", [None, 500, 1 << 24], ids=["unedited", "edited", "edited and large"])
def test_the_table_of_tensors_agrees_with_the_list_of_tensors(n_added, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(make_model_of_tensors().SerializeToString())
    with onnxwire.load(path) as model:
        if n_added:
            model.graph.initializer[2].name = "renamed"
            model.graph.initializer.add(
                name="new", data_type=TensorProto.FLOAT, dims=[n_added], raw_data=bytes(4 * n_added)
            )
        infos = onnxwire.tensors(model)
        rows = rows_of(model, "tensors")
    assert [row["path"] for row in rows] == [info.path for info in infos]
    for row, info in zip(rows, infos, strict=True):
        assert (row["name"] or "", row["dims"], row["location"]) == (info.name, list(info.shape), info.location)
        assert row["bytes"] == min(info.nbytes, (1 << 63) - 1)
        assert row["storage"] == ("inline" if info.path.endswith(".t") or "ext" not in info.name else "external")
        if not n_added or row["storage"] == "external":
            assert row["offset"] == info.offset
    by_name = {row["name"]: row for row in rows}
    assert (by_name["typed"]["data_type"], by_name["typed"]["bytes"]) == ("INT4", 2)
    assert by_name["odd"]["data_type"] == "77"
    assert by_name["bare"]["data_type"] is None
    assert by_name["bare"]["dims"] == []
    external_rows = [row for row in rows if row["storage"] == "external"]
    assert [row["length"] for row in external_rows] == [24, None, None, None]


def test_the_table_of_uses_lists_inputs_outputs_and_captured_names():
    rows = rows_of(make_complete_model().SerializeToString(), "uses")
    keys = ("graph", "name", "node", "slot", "kind")
    direct_uses = [{key: row[key] for key in keys} for row in rows if not row["inner_graph"]]
    assert all(row["inner_node"] is row["inner_slot"] is None for row in rows if row["slot"] is not None)
    assert {"graph": "graph", "name": "x", "node": 0, "slot": 0, "kind": "input"} in direct_uses
    assert {"graph": "graph", "name": "y", "node": 1, "slot": 0, "kind": "output"} in direct_uses
    # Both branches read h and w, which the main graph defines and its node 1 therefore uses.
    captured_uses = [row for row in rows if row["slot"] is None]
    assert all(row["inner_graph"].startswith("graph.node[1].attribute[") for row in captured_uses)
    assert sorted((row["graph"], row["name"], row["node"]) for row in captured_uses) == [
        ("graph", "h", 1), ("graph", "h", 1), ("graph", "w", 1), ("graph", "w", 1),
    ]  # fmt: skip
    assert {
        "graph": "graph.node[1].attribute[0].g",
        "name": "Mul_out",
        "node": 0,
        "slot": 0,
        "kind": "output",
    } in direct_uses
    assert {"graph": "functions[0]", "name": "a", "node": 0, "slot": 1, "kind": "input"} in direct_uses
    assert "" not in {row["name"] for row in rows}
    assert {"graph": "training_info[0].algorithm", "name": "w", "node": 0, "slot": 0, "kind": "input"} in direct_uses


def inner_use(row):
    """Return name, inner_graph, inner_node and inner_slot of a row of the table `uses`."""
    return row["name"], row["inner_graph"], row["inner_node"], row["inner_slot"]


def test_a_name_is_captured_from_the_nearest_graph_that_defines_it():
    inner = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "inner", [], [value("c", 1)])
    middle = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["b"]), helper.make_node("If", ["f"], ["d"], then_branch=inner)],
        "middle", [], [value("d", 1)],
    )  # fmt: skip
    outer = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("If", ["f"], ["e"], then_branch=middle)],
        "outer", [value("x", 1), value("f", 1)], [value("e", 1)],
    )  # fmt: skip
    rows = rows_of(helper.make_model(outer).SerializeToString(), "uses")
    captured_uses = {(row["graph"], row["name"], row["node"]) for row in rows if row["slot"] is None}
    middle_path = "graph.node[1].attribute[0].g"
    assert captured_uses == {("graph", "x", 1), ("graph", "f", 1), ("graph", "a", 1), (middle_path, "b", 1)}
    inner_uses = {inner_use(row) for row in rows if row["inner_graph"]}
    inner_path = f"{middle_path}.node[1].attribute[0].g"
    assert inner_uses == {
        ("x", middle_path, 0, 0),
        ("f", middle_path, 1, 0),
        ("a", inner_path, 0, 0),
        ("b", inner_path, 0, 1),
    }


def test_a_captured_output_of_a_subgraph_has_an_inner_slot_but_no_inner_node():
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "then", [], [value("n", 1), value("x", 1)])
    nodes = [helper.make_node("If", ["f"], ["a", "b"], then_branch=branch)]
    graph = helper.make_graph(nodes, "g", [value("x", 1), value("f", 1)], [value("a", 1)])
    rows = rows_of(helper.make_model(graph).SerializeToString(), "uses")
    branch_path = "graph.node[0].attribute[0].g"
    captured_uses = [inner_use(row) for row in rows if row["inner_graph"]]
    assert captured_uses == [("x", branch_path, 0, 0), ("x", branch_path, None, 1)]


# The fields are values (1), of which name is 8 and dims is 1, and indices (2).
@given(wire.valid_wire(onnxwire.SparseTensorProto.DESCRIPTOR))
@example(len_record(1, len_record(8, b"s")) + len_record(1, wire.varint_record(1, 5)))
@example(len_record(1, wire.varint_record(1, 5)) + len_record(1, len_record(8, b"s")) + len_record(2, b""))
def test_values_of_a_sparse_initializer_in_several_pieces_define_their_merged_name(data):
    sparse = onnx.SparseTensorProto.FromString(data)
    inner = helper.make_graph([helper.make_node("Neg", ["s"], ["q"])], "inner", [], [value("q", 1)])
    node = helper.make_node("If", ["f"], ["o"], then_branch=inner)
    outer = len_record(1, node.SerializeToString()) + len_record(15, data)
    captured_uses = [row["graph"] for row in rows_of(len_record(7, outer), "uses") if row["slot"] is None]
    assert captured_uses == (["graph"] if sparse.values.name == "s" else [])


@pytest.mark.parametrize("table", MESSAGE_TABLES)
def test_tables_of_edited_messages_contain_the_edits(table):
    model = onnxwire.ModelProto.FromString(make_complete_model().SerializeToString())
    model.producer_name = "somebody else, whose name is long"
    model.graph.node[1].name = "renamed"
    model.graph.node.add(op_type="New", input=["x", "y"]).attribute.add(name="k", type="INTS", ints=[1, 2])
    model.functions[0].node[0].ClearField("output")
    model.graph.input[0].type.tensor_type.shape.dim.add(dim_param="another name of a dimension")
    model.metadata_props.add(key="new", value="entry")
    rows = rows_of(model, table)
    assert_equal_rows(without_columns(rows, "offset", "bytes"), expected_rows(model, table))
    assert all(row.get("offset") is None and row.get("bytes") is None for row in rows)


def test_offsets_in_the_table_of_a_graph_are_those_in_its_document():
    data = make_complete_model().SerializeToString()
    model = onnxwire.ModelProto.FromString(data)
    rows_of_graph = rows_of(model.graph, "nodes")
    rows_of_model = [row for row in rows_of(data, "nodes") if row["graph"].startswith("graph")]
    assert [row["offset"] for row in rows_of_graph] == [row["offset"] for row in rows_of_model]
    assert rows_of_graph[0]["graph"] == ""


def test_a_graph_in_several_pieces_is_merged():
    first_piece = onnx.GraphProto(node=[helper.make_node("Relu", ["x"], ["y"])], name="first")
    second_piece = onnx.GraphProto(node=[helper.make_node("Neg", ["y"], ["z"])], name="second")
    data = len_record(7, first_piece.SerializeToString()) + len_record(7, second_piece.SerializeToString())
    assert [row["op_type"] for row in rows_of(data, "nodes")] == ["Relu", "Neg"]
    assert [row["index"] for row in rows_of(data, "nodes")] == [0, 1]
    assert rows_of(data, "model")[0]["graph_name"] == "second"


# --- strings


def test_strings_that_are_not_utf8_are_repaired_and_counted():
    valid_name, invalid_name = "äöü and some more of it".encode(), b"\xff and the text after it, which is long"
    encoded_surrogate = b"\xed\xa0\x80"
    # The fields are graph (7), and in it node (1) with name (3) and op_type (4).
    nodes = [
        len_record(1, len_record(3, name) + len_record(4, b"Relu"))
        for name in (valid_name, invalid_name, encoded_surrogate)
    ]
    data = len_record(7, b"".join(nodes))
    table = onnxwire.to_arrow(data, "nodes")
    assert table.repaired_strings == 2
    arrow_table = pa.table(table)
    arrow_table.validate(full=True)
    assert arrow_table["name"].to_pylist() == [
        name.decode("utf-8", "replace") for name in (valid_name, invalid_name, encoded_surrogate)
    ]
    assert arrow_table.schema.metadata == {b"onnxwire.repaired_strings": b"2"}


def test_long_strings_stay_in_the_file(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.ModelProto(producer_name="p" * 5000, doc_string="d" * 5000).SerializeToString())
    model = onnxwire.load(path)
    column = pa.table(onnxwire.to_arrow(model, "model"))["doc_string"].chunk(0)
    views, *buffers = column.buffers()[1:]
    # The buffers have no more bytes than the mapped file.
    assert sum(buffer.size for buffer in buffers) < 2 * 5000 + 100
    # The view of a long string consists of size, first bytes, buffer index and offset, of 4 bytes each.
    offset, size = (int.from_bytes(views.to_pybytes()[i : i + 4], "little") for i in (12, 0))
    buffer_index = int.from_bytes(views.to_pybytes()[8:12], "little")
    with open(path, "r+b") as file:  # the mapping shows later writes to the file
        file.seek(path.read_bytes().index(b"dddd"))
        file.write(b"written")
    assert buffers[buffer_index].to_pybytes()[offset : offset + size].startswith(b"written")


def test_tables_contain_no_weights(tmp_path):
    path = tmp_path / "sparse.onnx"
    write_sparse_model(path, 3 << 30)
    with open(path, "ab") as file:
        name = b"a name that is more than 2 GiB after the first"
        # A second piece of the graph (7) with a node (1), its op_type (4) and name (3); and producer_name (2).
        file.write(
            len_record(7, len_record(1, len_record(4, b"Neg") + len_record(3, name)))
            + len_record(2, b"a producer of a long name")
        )
    table = pa.table(onnxwire.to_arrow(path, "nodes"))
    assert table["name"].to_pylist() == ["n", name.decode()]
    assert table.nbytes < 10_000
    tensors = pa.table(onnxwire.to_arrow(path, "tensors"))
    assert tensors["bytes"].to_pylist() == [3 << 30]
    assert tensors.nbytes < 10_000


def test_strings_more_than_2_gib_apart_are_in_one_table(tmp_path):
    # The names are before and after a hole of 5 GiB, which offsets of 31 bits can't span.
    path = tmp_path / "far.onnx"
    size = 5 << 30
    first_node, last_node = (
        len_record(1, len_record(4, b"Op") + len_record(3, name * 3))
        for name in (b"the first name ", b"the last name ")
    )
    # The fields of the graph (7) are node (1), with op_type (4) and name (3), and initializer (5), with raw_data (9).
    tensor_start = tag(5, LEN) + varint(size + len(varint(size)) + 1) + tag(9, LEN) + varint(size)
    graph_size = len(first_node) + len(tensor_start) + size + len(last_node)
    with open(path, "wb") as file:
        file.write(tag(7, LEN) + varint(graph_size) + first_node + tensor_start)
        file.seek(size, os.SEEK_CUR)
        file.write(last_node)
    arrow_table = pa.table(onnxwire.to_arrow(path, "nodes"))
    arrow_table.validate(full=True)
    assert arrow_table["name"].to_pylist() == ["the first name " * 3, "the last name " * 3]
    assert arrow_table["offset"].to_pylist()[1] > size


# --- consumers


def test_the_document_stays_open_while_a_consumer_uses_a_column():
    data = make_complete_model().SerializeToString()
    model = onnxwire.load(data)
    table = onnxwire.to_arrow(model, "nodes")
    column = pa.table(table)["name"]
    del table
    gc.collect()
    with pytest.raises(onnxwire.InUseError, match="still in use"):
        model.close()
    assert column.to_pylist()[0] == "first"
    del column
    model.close()
    with pytest.raises(onnxwire.ClosedError):
        onnxwire.to_arrow(model, "nodes")


def test_copied_strings_do_not_keep_the_document_open():
    model = onnxwire.load(make_complete_model().SerializeToString())
    table = onnxwire.to_arrow(model, "nodes", strings="utf8")
    model.close()
    assert pa.table(table)["op_type"].to_pylist()[:2] == ["Relu", "If"]


def test_a_table_is_exported_many_times_and_outlives_its_model():
    table = onnxwire.to_arrow(DIGITS, "nodes")
    exported = [pa.table(table) for _ in range(3)]
    del table
    gc.collect()
    assert exported[0].equals(exported[1]) and exported[1].equals(exported[2])
    names = exported[0]["op_type"]
    del exported
    gc.collect()
    assert names.to_pylist()[:3] == ["Shape", "Squeeze", "Conv"]


def test_unused_capsules_are_freed():
    model = onnxwire.load(make_complete_model().SerializeToString())
    table = onnxwire.to_arrow(model, "values")
    for _ in range(3):
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
    reader = pa.RecordBatchReader.from_stream(table)  # the stream is imported, but not read
    assert pa.schema(table) == reader.schema
    del table, reader
    gc.collect()
    model.close()


def test_columns_are_released_from_other_threads():
    model = onnxwire.load(make_complete_model().SerializeToString())
    tables = [pa.table(onnxwire.to_arrow(model, "attributes")) for _ in range(8)]
    threads = [threading.Thread(target=tables.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    model.close()


def test_a_requested_schema_with_another_number_of_columns_is_an_error():
    table = onnxwire.to_arrow(DIGITS, "opsets")
    assert pa.table(table, schema=pa.schema([("domain", pa.string()), ("version", pa.int64())])).num_rows == 1
    with pytest.raises(ValueError, match="2 columns"):
        table.__arrow_c_stream__(pa.schema([("domain", pa.string())]).__arrow_c_schema__())


@pytest.mark.parametrize("table", TABLES)
def test_polars_reads_every_table(table):
    polars = pytest.importorskip("polars")
    data = make_complete_model().SerializeToString()
    assert_equal_rows(polars.DataFrame(onnxwire.to_arrow(data, table)).to_dicts(), rows_of(data, table))


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_reads_every_table(table):
    duckdb = pytest.importorskip("duckdb")
    data = make_complete_model().SerializeToString()
    arrow_table = onnxwire.to_arrow(data, table)
    relation = duckdb.from_arrow(arrow_table)
    assert_equal_rows(
        [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()], rows_of(data, table)
    )


@pytest.mark.parametrize("table", TABLES)
def test_pandas_reads_every_table(table):
    pandas = pytest.importorskip("pandas", minversion="3")
    data = make_complete_model().SerializeToString()
    frame = pandas.DataFrame.from_arrow(onnxwire.to_arrow(data, table, strings="utf8"))
    rows = rows_of(data, table)
    assert list(frame.columns) == list(rows[0])
    assert len(frame) == len(rows)


def test_making_a_table_needs_no_arrow_library():
    code = (
        "import sys, onnxwire\n"
        "for name in ('pyarrow', 'polars', 'duckdb', 'pandas', 'numpy'): sys.modules[name] = None\n"
        "table = onnxwire.to_arrow(sys.argv[1], 'nodes')\n"
        "table.__arrow_c_stream__(); print(len(table), table.to_pydict()['op_type'][0])"
    )
    process = subprocess.run([sys.executable, "-c", code, str(DIGITS)], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["17", "Shape"]


@pytest.mark.parametrize("path", [DIGITS, FOREST])
@pytest.mark.parametrize("table", TABLES)
def test_tables_of_real_models_are_valid(path, table):
    arrow_table = pa.table(onnxwire.to_arrow(path, table))
    arrow_table.validate(full=True)
    assert arrow_table.column_names == [name for name, *_ in TABLES[table].columns]


# --- errors


def test_an_unknown_table_or_kind_of_strings_is_an_error():
    with pytest.raises(onnxwire.EditError, match="there is no table 'node'; the tables are nodes, attributes"):
        onnxwire.to_arrow(DIGITS, "node")
    with pytest.raises(ValueError, match="'utf8_view' or 'utf8', not 'text'"):
        onnxwire.to_arrow(DIGITS, "nodes", strings="text")


def test_damage_is_reported_with_its_offset():
    data = make_complete_model().SerializeToString()
    offset = rows_of(data, "nodes")[0]["offset"]
    damaged = data[:offset] + b"\x07" + data[offset + 1 :]  # a tag of wire type 7, which does not exist
    with pytest.raises(onnxwire.DecodeError, match=r"graph\.node\[0\]") as error_info:
        onnxwire.to_arrow(damaged, "nodes")
    assert error_info.value.offset == offset


def test_graphs_and_types_that_are_nested_too_deeply_are_an_error():
    graph = b""
    for _ in range(60):
        graph = len_record(1, len_record(5, len_record(6, graph)))  # node.attribute.g
    with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
        onnxwire.to_arrow(len_record(7, graph), "nodes")
    nested_type = len_record(1, len_record(1, b""))
    for _ in range(60):
        nested_type = len_record(4, len_record(1, nested_type))  # sequence_type.elem_type
    with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
        onnxwire.to_arrow(len_record(7, len_record(11, len_record(2, nested_type))), "values")  # graph.input.type


def test_every_column_is_documented():
    page = (DIGITS.parent.parent / "docs" / "tables.md").read_text()
    for name, spec in TABLES.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        for column, *_ in spec.columns:
            assert f"`{column}`" in line, (name, column)


def test_objects_that_are_not_onnx_messages_are_an_error():
    with pytest.raises(onnxwire.EditError, match=r"test\.Everything is not an ONNX message"):
        onnxwire.to_arrow(EVERYTHING(), "nodes")
    with pytest.raises(TypeError, match="expected a path"):
        onnxwire.to_arrow(3, "nodes")


def test_each_value_has_its_type_and_shape_if_many_values_have_equal_types():
    rng = random.Random(5)
    dims = [None, 0, -1, 7, 1 << 40, "batch", "a name that is longer than twelve bytes", ""]
    types = [None]
    for number in (0, 1, 7, 99):
        for rank in (None, 0, 1, 2, 3):
            shape = None if rank is None else [rng.choice(dims) for _ in range(rank)]
            types.append((number, shape))
    values, expected = [], []
    for i in range(3_000):
        type_and_shape = rng.choice(types)
        value = onnxwire.ValueInfoProto(name=f"v{i}")
        if type_and_shape is None:
            expected.append((None, None, None))
        else:
            number, shape = type_and_shape
            value.type.tensor_type.elem_type = number
            if shape is not None:
                value.type.tensor_type.shape.SetInParent()
            for dim in shape or []:
                dimension = value.type.tensor_type.shape.dim.add()
                if isinstance(dim, int):
                    dimension.dim_value = dim
                elif dim is not None:
                    dimension.dim_param = dim
            name = onnx.TensorProto.DataType.Name(number).lower() if number != 99 else "99"
            expected.append(
                (
                    f"tensor({name})",
                    None if shape is None else [dim if isinstance(dim, int) else None for dim in shape],
                    None if shape is None else [None if dim is None else str(dim) for dim in shape],
                )
            )
        values.append(value)
    model = onnxwire.ModelProto(graph={"value_info": values}).SerializeToString()
    table = onnxwire.to_arrow(model, "values").to_pydict()
    assert list(zip(table["type"], table["shape"], table["dims"], strict=True)) == expected


def test_each_repaired_dim_of_equal_types_is_counted():
    # Two values in graph.value_info, with the type tensor(float) and a dim_param that is not UTF-8.
    shape = len_record(1, len_record(2, b"\xff"))
    value_info = len_record(2, len_record(1, wire.varint_record(1, 1) + len_record(2, shape)))
    model = len_record(7, len_record(13, value_info) * 2)
    table = onnxwire.to_arrow(model, "values")
    assert (table.to_pydict()["dims"], table.repaired_strings) == ([["\ufffd"], ["\ufffd"]], 2)
