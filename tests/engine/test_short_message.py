"""Short edited messages are encoded in one pass, with the bytes that the general encoder writes."""

import random
from pathlib import Path

import onnx
import pytest
from each import each

import onnxwire as ow

# A record of the field 255, which NodeProto does not have. The general encoder writes messages with unknown fields.
UNKNOWN_RECORD = b"\xfa\x0f\x03abc"

EDITS = [
    lambda node: setattr(node, "name", "new"),
    lambda node: setattr(node, "op_type", ""),
    lambda node: setattr(node, "doc_string", "d" * 300),
    lambda node: node.ClearField("domain"),
    lambda node: node.input.append("x"),
    lambda node: node.input.insert(0, "y" * 200),
    lambda node: node.ClearField("output"),
    lambda node: node.output.extend(["o", "p"]),
    lambda node: node.attribute.add(name="added", i=-1, type=2),
    lambda node: node.attribute.add(name="ints", ints=[1, 2**40, -3], type=7),
    lambda node: node.attribute.add().t.dims.extend([3, 4]),
    lambda node: node.attribute and setattr(node.attribute[0], "f", 1.5),
    lambda node: node.attribute and setattr(node.attribute[-1].t, "name", "t"),
    lambda node: node.attribute and node.attribute[0].g.node.add(op_type="Inner"),
    lambda node: node.attribute and node.attribute[0].CopyFrom(node.attribute[-1]),
    lambda node: node.attribute and node.attribute.pop(0),
    lambda node: node.attribute.append(ow.AttributeProto(name="copied", s=b"s")),
]  # fmt: skip


def encode_random_node(rng: random.Random) -> bytes:
    """Return the encoding of a node whose records are in random order; some fields may be absent or repeated."""
    attribute = onnx.AttributeProto(name="a", i=7, type=2)
    attribute.t.raw_data = b"1234"
    records = [
        onnx.NodeProto(input=["a", ""]), onnx.NodeProto(output=["b"]), onnx.NodeProto(name="n"),
        onnx.NodeProto(op_type="Relu"), onnx.NodeProto(domain="d"), onnx.NodeProto(attribute=[attribute]),
        onnx.NodeProto(attribute=[onnx.AttributeProto(name="g", g=onnx.GraphProto(name="inner"))]),
    ]  # fmt: skip
    return b"".join(record.SerializeToString() for record in rng.choices(records, k=rng.randrange(9)))


def encode_edited(data: bytes, edits: list) -> tuple[bytes, bytes]:
    """Return the encodings of a node and of its graph after edits of the node."""
    graph = ow.GraphProto()
    node = ow.NodeProto.FromString(data)
    graph.node.append(node)
    graph = ow.GraphProto.FromString(graph.SerializeToString())
    for edit in edits:
        edit(graph.node[0])
    assert graph.ByteSize() == len(graph.SerializeToString())
    return graph.node[0].SerializeToString(), graph.SerializeToString()


def test_the_encoding_of_an_edited_message_is_that_of_the_general_encoder() -> None:
    rng = random.Random(5)
    for _ in range(400):
        data = encode_random_node(rng)
        edits = rng.choices(EDITS, k=rng.randrange(1, 5))
        node_bytes, graph_bytes = encode_edited(data, edits)
        general_node_bytes, general_graph_bytes = encode_edited(data + UNKNOWN_RECORD, edits)
        assert node_bytes + UNKNOWN_RECORD == general_node_bytes
        assert ow.GraphProto.FromString(graph_bytes).node[0].SerializeToString() == node_bytes
        assert ow.GraphProto.FromString(general_graph_bytes).node[0].SerializeToString() == general_node_bytes


@each("count", [1, 20, 70, 200])
def test_the_encoding_of_a_message_with_any_number_of_records_is_complete(count: int) -> None:
    graph = ow.GraphProto.FromString(
        onnx.GraphProto(node=[onnx.NodeProto(input=[f"i{k}" for k in range(count)], op_type="A")]).SerializeToString()
    )
    graph.node[0].name = "n"
    graph.node[0].input[0] = "changed"
    official = onnx.GraphProto.FromString(graph.SerializeToString())
    assert official.node[0].input == ["changed", *(f"i{k}" for k in range(1, count))]
    assert (official.node[0].name, official.node[0].op_type) == ("n", "A")


def test_an_edit_of_a_damaged_nested_message_raises_decode_error() -> None:
    graph = ow.GraphProto.FromString(b"\x0a\x04\x22\x01A\x0a")  # a node that ends inside a record
    with pytest.raises(ow.DecodeError):
        graph.node[0].name = "n"


def test_a_message_type_of_more_than_64_fields_can_be_edited(tmp_path: Path) -> None:
    # A set of the fields, with one bit per field, does not fit in a 64-bit integer.
    head = ["# wide.proto", "package: wide", "syntax: proto3", "## message Wide", "Many fields."]
    names = ["number", "name", "type", "label", "oneof", "packed", "since", "until", "doc"]
    columns = ["", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    rows = [f"| {i} | f{i} | string | {('optional', 'repeated')[i % 2]} | | | 1 | | Text. |" for i in range(1, 91)]
    path = tmp_path / "wide.md"
    path.write_text("\n\n".join(head) + "\n".join(columns + rows) + "\n")
    wide = ow.load_schema(path).Wide
    message = wide(f2="a", f70="b", f90="c", f71=["d"])
    for copy in (wide.FromString(message.SerializeToString()), wide()):
        copy.CopyFrom(message)
        copy.f90 = "new"
        copy.f89.append("e")
        copy.ClearField("f70")
        expected = wide(f2="a", f90="new", f71=["d"], f89=["e"]).SerializeToString()
        assert copy.SerializeToString() == copy.SerializeToString(deterministic=True) == expected
