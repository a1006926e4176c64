"""Readers disagree: the same bytes are different models to different parsers."""
# fmt: off

from __future__ import annotations

import struct

from .case import declare
from .writer import (
    BOOL,
    DOUBLE,
    END_GROUP,
    EXTERNAL,
    FLOAT,
    FLOAT16,
    INT8,
    INT32,
    INT64,
    LEN,
    STRING,
    VARINT,
    Tensor,
    X,
    Y,
    attribute,
    dimension,
    entry,
    external_pairs,
    fixed32,
    fixed64,
    function,
    graph,
    group,
    integer,
    integers,
    model,
    model_with_extras,
    model_with_weight,
    network,
    node,
    opset,
    record,
    scalar,
    shape,
    sparse,
    tag,
    tensor,
    tensor_type,
    typed,
    value,
    values,
    varint,
)

AFFECTED = "protobuf, onnx, onnxruntime, Netron, tract, scanners"
WEIGHTS = struct.pack("<4f", 1, 2, 3, 4)
OTHER_WEIGHTS = struct.pack("<4f", 9, 9, 9, 9)
IDENTITY = graph([node("Identity", ["x"], ["y"])], [X], [Y])

# Singular messages that occur more than once. protobuf merges the records; other readers use the first or the last.

attack = declare("repeated-message", "readers",
    "A singular message field occurs twice: protobuf merges both, other readers keep the first or the last.",
    "CWE-436", AFFECTED)
attack("graph-twice-adds-node",
    "A second graph record contains one more node: protobuf merges it, a first-wins reader does not see it.",
    model(IDENTITY, extra=record(7, record(1, node("Neg", ["x"], ["hidden"])))))
attack("graph-twice-other-output",
    "Two graphs: merged, the model computes both and has two outputs; a last-wins reader sees only Neg.",
    model(IDENTITY, extra=record(7, graph([node("Neg", ["x"], ["z"])], [], [value("z", FLOAT, [4])]))))
attack("tensor-attribute-twice",
    "The field t of an attribute occurs twice: protobuf concatenates the dims to [2, 2] and takes the last raw_data.",
    network([node("Constant", [], ["c"], extra=record(5, record(1, "value") + record(5, tensor(None, [2], FLOAT,
    WEIGHTS[:8])) + record(5, tensor(None, [2], FLOAT, OTHER_WEIGHTS)) + integer(20, 4))), node("Identity", ["c"],
    ["y"])]))
attack("type-twice", "The type of input x occurs twice, float and int64: the merged element type is int64.",
    model(graph([node("Identity", ["x"], ["y"])], [value("x", FLOAT, [4], record(2, tensor_type(INT64)))], [Y])))
attack("shape-twice",
    "The shape of input x occurs twice: protobuf concatenates the dimensions, so its rank is 2 instead of 1.",
    network([node("Identity", ["x"], ["y"])], inputs=[typed("x", tensor_type(FLOAT, [4], record(2,
    shape([1000000]))))]))
attack("branch-twice", "The then_branch of an If occurs twice: merged, it computes Identity and Neg.",
    network([node("If", ["c"], ["y"], extra=record(5, attribute("then_branch", graph([node("Identity", ["x"], ["a"])],
    [], [value("a")], name="then"), record(6, record(1, node("Neg", ["x"], ["evil"]))))),
    else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")], name="else"))], [scalar("c", True, BOOL)]))
attack("sparse-values-twice",
    "The values of a sparse initializer occur twice: merged, their name and data are those of the second.",
    model_with_extras(sparse=[sparse("s", [8], [1.0], [3], record(1, values("other", [666.0])))]))
attack("optional-type-twice",
    "The field tp of an attribute occurs twice: readers see an Optional of float or of int64.",
    network([node("Optional", [], ["o"], extra=record(5, attribute("type", tensor_type(FLOAT), record(14,
    tensor_type(INT64)))))], outputs=[typed("o", record(9, record(1, tensor_type(FLOAT))))]))

# Singular scalars that occur more than once. protobuf uses the last value.

attack = declare("repeated-scalar", "readers",
    "A singular scalar field occurs twice: protobuf takes the last, scanners that stop at the first see another model.",
    "CWE-436", AFFECTED)

attack("op-type-twice", "op_type is Identity and then Neg.", network([node("Identity", ["x"], ["y"], extra=record(4,
    "Neg"))]))
attack("domain-twice", "The domain of a node is empty and then ai.onnx.contrib, where PyOp runs Python code.",
    network([node("PyOp", ["x"], ["y"], domain="", extra=record(7, "ai.onnx.contrib"))], opsets=(("", 21),
    ("ai.onnx.contrib", 1))))
attack("data-type-twice", "data_type is float and then int32.", model_with_weight(tensor("w", [4], FLOAT, WEIGHTS,
    integer(2, INT32))))
attack("raw-data-twice", "raw_data occurs twice with different weights.", model_with_weight(tensor("w", [4], FLOAT,
    WEIGHTS, record(9, OTHER_WEIGHTS))))
attack("name-twice", "The initializer's name is 'unused' and then 'w'.", model_with_weight(tensor("unused", [4], FLOAT,
    WEIGHTS, record(8, "w"))))
attack("ir-version-twice", "ir_version is 10 and then 3.", model(IDENTITY, extra=integer(1, 3)))
attack("attribute-type-twice", "The type of attribute axis is INT and then INTS.", network([node("Softmax", ["x"],
    ["y"], extra=record(5, attribute("axis", 0, integer(20, 7))))]))
attack("attribute-value-twice", "The value of attribute axis is 0 and then -1.", network([node("Softmax", ["x"],
    ["y"], extra=record(5, attribute("axis", 0, integer(3, -1))))]))
attack("opset-version-twice", "The operator set is version 21 and then 1.", model(IDENTITY, opsets=(), extra=record(8,
    opset("", 21) + integer(2, 1))))
attack("location-twice", "The location of external data is weights.bin and then ../outside.bin.",
    model_with_weight(external_pairs("w", [], extra=record(13, entry("location", "weights.bin") + record(2,
    "../outside.bin")))))
attack("data-location-twice",
    "data_location is DEFAULT and then EXTERNAL: the raw_data that scanners read is not used.", model_with_weight(
    tensor("w", [4], FLOAT, WEIGHTS, integer(14, 0) + record(13, entry("location", "../outside.bin")) + integer(14,
    EXTERNAL))))
attack("element-type-twice", "elem_type of the input is float and then string.", network([node("Identity", ["x"],
    ["y"])], inputs=[typed("x", tensor_type(FLOAT, [4], integer(1, STRING)))]))
attack("dimension-twice", "The dimension of the input is 4 and then 2^40.", network([node("Identity", ["x"], ["y"])],
    inputs=[typed("x", record(1, integer(1, FLOAT) + record(2, record(1, dimension(4) + dimension(1 << 40)))))]))
attack("metadata-value-twice", "A metadata value occurs twice under one key.", model(IDENTITY, extra=record(14,
    entry("license", "MIT") + record(2, "proprietary"))))
attack("function-name-twice", "A function's name is Helper and then Gelu, which replaces the standard operator.",
    network([node("Gelu", ["x"], ["y"])], functions=[function("Helper", [node("Neg", ["a"], ["b"])], ["a"], ["b"], "",
    extra=record(1, "Gelu"))]))

attack = declare("oneof-both", "readers",
    "Two members of a oneof are present: protobuf keeps the last, other readers both or the first.", "CWE-436",
    AFFECTED)
attack("dimension-value-and-name", "A dimension has dim_value 4 and then dim_param N: protobuf drops the 4.",
    network([node("Identity", ["x"], ["y"])], inputs=[typed("x", record(1, integer(1, FLOAT) + record(2, record(1,
    dimension(4) + dimension("N")))))]))
attack("dimension-name-and-value", "A dimension has dim_param N and then dim_value 2^50.", network([node("Identity",
    ["x"], ["y"])], inputs=[typed("x", record(1, integer(1, FLOAT) + record(2, record(1,
    dimension("N") + dimension(1 << 50)))))]))
attack("type-tensor-and-sequence", "The type of the input is a tensor and then a sequence.", network([node("Identity",
    ["x"], ["y"])], inputs=[typed("x", tensor_type(FLOAT, [4]) + record(4, record(1, tensor_type())))]))
attack("type-sequence-and-tensor", "The type of the output is a sequence and then a tensor.",
    network([node("Identity", ["x"], ["y"])], outputs=[typed("y", record(4, record(1,
    tensor_type())) + tensor_type(FLOAT, [4]))]))

# Other wire types

attack = declare("wrong-wire-type", "readers",
    "A known field has another wire type: protobuf keeps it as an unknown field, lenient readers decode it.",
    "CWE-436", AFFECTED)
attack("op-type-as-integer", "A record of op_type with wire type VARINT follows the correct one.",
    network([node("Identity", ["x"], ["y"], extra=integer(4, 7))]))
attack("node-as-group", "A node is encoded as a group: protobuf skips it, a reader that accepts groups runs it.",
    model(IDENTITY, extra=record(7, group(1, node("PyOp", ["x"], ["z"], domain="ai.onnx.contrib")))))
attack("graph-as-group", "A second graph is encoded as a group.", model(IDENTITY, extra=group(7, graph([node("Neg",
    ["x"], ["y"])]))))
attack("ir-version-as-fixed64", "ir_version is encoded as 8 fixed bytes.", model(IDENTITY, ir_version=None,
    extra=fixed64(1, 10)))
attack("data-type-as-fixed32", "data_type is encoded as 4 fixed bytes: protobuf sees a tensor of type UNDEFINED.",
    model_with_weight(Tensor(integers(1, [4]) + fixed32(2, FLOAT) + record(8, "w") + record(9, WEIGHTS))))
attack("raw-data-as-group", "raw_data is encoded as a group: protobuf sees a tensor without data.",
    model_with_weight(tensor("w", [4], FLOAT, None, group(9, fixed32(1, 7)))))
attack("external-data-as-group", "external_data is encoded as a group with a location outside of the folder.",
    model_with_weight(tensor("w", [4], FLOAT, WEIGHTS, group(13, entry("location", "../outside.bin")) + integer(14,
    EXTERNAL))))
attack("opset-version-as-bytes", "The version of the operator set is encoded as bytes.", model(IDENTITY, opsets=(),
    extra=record(8, record(1, "") + record(2, b"\x15"))))
attack("name-as-fixed64", "The name of a node is encoded as 8 fixed bytes.", network([node("Identity", ["x"], ["y"],
    extra=fixed64(3, 0x4141414141414141))]))
attack("data-location-as-bytes",
    "data_location is encoded as bytes: protobuf sees DEFAULT, a lenient reader EXTERNAL.", model_with_weight(tensor(
    "w", [4], FLOAT, WEIGHTS, record(13, entry("location", "../outside.bin")) + record(14, b"\x01"))))

attack = declare("packed-encoding", "readers",
    "Repeated numbers are packed where the schema is unpacked, or mixed, or cut: readers count elements differently.",
    "CWE-436", AFFECTED)
attack("dims-mixed", "dims has a packed and an unpacked part: a reader that knows only one form sees another rank.",
    model_with_weight(Tensor(record(1, varint(2)) + integer(1, 2) + integer(2, FLOAT) + record(8, "w") + record(9,
    WEIGHTS))))
attack("dims-packed-twice", "dims has two packed parts.", model_with_weight(Tensor(record(1, varint(1)) + record(1,
    varint(4)) + integer(2, FLOAT) + record(8, "w") + record(9, WEIGHTS))))
attack("float-data-unpacked-and-packed",
    "float_data has unpacked and packed elements: a reader that uses only the last part sees 2 of 4.",
    model_with_weight(tensor("w", [4], extra=fixed32(4, 0x3F800000) + fixed32(4, 0x40000000) + record(4, WEIGHTS[8:]))))
attack("float-data-odd-bytes", "Packed float_data has 15 bytes, no multiple of 4.", model_with_weight(tensor("w", [4],
    extra=record(4, WEIGHTS[:15]))))
attack("int64-data-cut-varint", "Packed int64_data ends within a varint.", model_with_extras([tensor("i", [2], INT64,
    extra=record(7, varint(1) + b"\x80"))]))
attack("ints-mixed",
    "The ints of an attribute have packed and unpacked elements: perm has 2 elements to some readers, 4 to others.",
    network([node("Transpose", ["x"], ["y"], extra=record(5, record(1, "perm") + record(8,
    varint(1) + varint(0)) + integer(8, 3) + integer(8, 2) + integer(20, 7)))], inputs=[value("x", FLOAT, [1, 2, 3,
    4])]))

attack = declare("overlong-varint", "readers",
    "A varint has more bytes than needed: strict readers refuse it, scanners that compare bytes miss it.", "CWE-436",
    AFFECTED)
attack("tag-of-two-bytes", "The tag of the graph has two bytes.", model(None, extra=tag(7, LEN,
    2) + varint(len(IDENTITY)) + IDENTITY))
attack("tag-of-five-bytes", "The tag of the graph has five bytes.", model(None, extra=tag(7, LEN,
    5) + varint(len(IDENTITY)) + IDENTITY))
attack("tag-of-ten-bytes", "The tag of the graph has ten bytes: protobuf refuses it.", model(None, extra=tag(7, LEN,
    10) + varint(len(IDENTITY)) + IDENTITY))
attack("length-of-five-bytes", "The length of the graph has five bytes.", model(None, extra=record(7, IDENTITY, 5)))
attack("length-of-ten-bytes", "The length of the graph has ten bytes.", model(None, extra=record(7, IDENTITY, 10)))
attack("enum-of-ten-bytes", "data_type is 1 in ten bytes.", model_with_weight(Tensor(integers(1, [4]) + integer(2, 1,
    10) + record(8, "w") + record(9, WEIGHTS))))
attack("dimension-of-ten-bytes", "A dimension is 4 in ten bytes.", model_with_weight(Tensor(integer(1, 4, 10) + integer(
    2, 1) + record(8, "w") + record(9, WEIGHTS))))
attack("integer-of-eleven-bytes", "ir_version has eleven bytes: a reader without a limit shifts by 70 bits.",
    model(IDENTITY, ir_version=None, extra=tag(1, VARINT) + b"\x8a" + b"\x80" * 9 + b"\x00"))
attack("location-length-of-four-bytes", "The length of an external location has four bytes.", model_with_weight(tensor(
    "w", [4], extra=record(13, record(1, "location") + record(2, "../outside.bin", 4)) + integer(14, EXTERNAL))))

attack = declare("high-bits", "readers",
    "A number is outside of the range that readers expect: some readers truncate it, others do not.", "CWE-681",
    AFFECTED)
attack("data-type", "data_type is 2^32 + 1: float to protobuf, invalid to 64-bit readers.", model_with_weight(tensor(
    "w", [4], (1 << 32) + 1, WEIGHTS)))
attack("element-type", "elem_type of the input is 2^32 + 1.", network([node("Identity", ["x"], ["y"])],
    inputs=[value("x", (1 << 32) + 1, [4])]))
attack("attribute-type", "The type of an attribute is 2^32 + 2.", network([node("Softmax", ["x"], ["y"],
    extra=record(5, record(1, "axis") + integer(3, 0) + integer(20, (1 << 32) + 2)))]))
attack("data-location", "data_location is 2^32 + 1: EXTERNAL only to readers that truncate.", model_with_weight(tensor(
    "w", [4], FLOAT, WEIGHTS, record(13, entry("location", "../outside.bin")) + integer(14, (1 << 32) + 1))))
attack("data-location-unknown", "data_location is 7, which onnx.proto does not define.", model_with_weight(tensor("w",
    [4], FLOAT, WEIGHTS, record(13, entry("location", "../outside.bin")) + integer(14, 7))))
attack("data-type-negative", "data_type is 2^63 + 1, which is negative as int64.", model_with_weight(tensor("w", [4],
    (1 << 63) + 1, WEIGHTS)))
attack("int32-data", "int32_data elements are 2^32 + 5.", model_with_extras([tensor("i", [2], INT32, extra=integer(5,
    (1 << 32) + 5) * 2)]))
attack("ir-version", "ir_version is 2^32 + 10.", model(IDENTITY, ir_version=(1 << 32) + 10))
attack("opset-version", "The version of the operator set is 2^63 - 1.", model(IDENTITY, opsets=(("", (1 << 63) - 1),)))
attack("opset-version-truncated", "The version of the operator set is 2^32 + 21: 21 to readers that cast to int.",
    model(IDENTITY, opsets=(("", (1 << 32) + 21),)))
attack("above-64-bits", "The last byte of a ten-byte varint has bits above the 64th.", model(IDENTITY,
    ir_version=None, extra=tag(1, VARINT) + b"\x8a" + b"\x80" * 8 + b"\x7e"))
attack("length", "A length is 2^32 + 4: a reader with 32-bit lengths reads 4 bytes and continues.", model(IDENTITY,
    extra=tag(6, LEN) + varint((1 << 32) + 4) + b"docs" + record(7, record(1, node("Neg", ["x"], ["z"])))))
attack("field-number",
    "The field number of a second graph is 2^29 + 7, which is 7 if a reader cuts the tag to 32 bits.",
    model(IDENTITY, extra=varint(((1 << 29) + 7) << 3 | LEN) + varint(2) + record(2, "")))

# Several values where one is expected

attack = declare("two-payloads", "readers",
    "A tensor has two payloads: readers prefer different ones, so that the weights differ.", "CWE-436", AFFECTED)
attack("raw-and-float", "raw_data and float_data contain different weights.", model_with_weight(tensor("w", [4], FLOAT,
    WEIGHTS, record(4, OTHER_WEIGHTS))))
attack("raw-and-int32", "An int8 tensor has raw_data and int32_data.", model_with_extras([tensor("i", [2], INT8,
    b"\1\2", integer(5, 9) * 2)]))
attack("raw-and-int64", "The shape of a Reshape has raw_data and int64_data with different numbers.",
    network([node("Reshape", ["x", "s"], ["y"])], [tensor("s", [2], INT64, struct.pack("<2q", 2, 2), integer(7,
    1) + integer(7, 4))]))
attack("float-and-double", "A float tensor has float_data and double_data.", model_with_weight(tensor("w", [4], FLOAT,
    None, record(4, WEIGHTS) + record(10, struct.pack("<4d", 9, 9, 9, 9)))))
attack("double-without-raw", "A double tensor has double_data and float_data.", model_with_extras([tensor("d", [4],
    DOUBLE, None, record(10, struct.pack("<4d", 1, 2, 3, 4)) + record(4, OTHER_WEIGHTS))]))
attack("float16-int32-and-float", "A float16 tensor has int32_data and float_data.", model_with_extras([tensor("h", [2],
    FLOAT16, None, integer(5, 0x3C00) * 2 + record(4, OTHER_WEIGHTS[:8]))]))
attack("raw-and-external", "A tensor has raw_data and external data; data_location is EXTERNAL.",
    model_with_weight(external_pairs("w", [("location", "two.bin")], extra=record(9, WEIGHTS))), files={
    "two.bin": OTHER_WEIGHTS})
attack("external-but-default",
    "A tensor has external_data, but data_location is DEFAULT: some readers examine only external_data.",
    model_with_weight(tensor("w", [4], FLOAT, WEIGHTS, record(13, entry("location", "../outside.bin")))))
attack("string-and-raw", "A string tensor has string_data and raw_data.", model_with_extras([tensor("s", [1], STRING,
    b"raw!", record(6, "string"))]))
attack("constant-two-values", "A Constant has value and value_float.", network([node("Constant", [], ["c"],
    value=scalar(None, 1.0, FLOAT), value_float=666.0), node("Mul", ["x", "c"], ["y"])]))

attack = declare("attribute-two-values", "readers",
    "An attribute has values of two kinds, or its type is not that of its value.", "CWE-436", AFFECTED)


def softmax(attribute_bytes):
    """Return a model with a Softmax. attribute_bytes: the records of its attribute axis after the name."""
    return network([node("Softmax", ["x"], ["y"], extra=record(5, record(1, "axis") + attribute_bytes))])


attack("int-and-float", "axis has i and f; its type is INT.", softmax(integer(3, 0) + fixed32(2,
    0x3F800000) + integer(20, 2)))
attack("int-and-tensor", "axis has i and t; its type is INT.", softmax(integer(3, 0) + record(5, tensor(None,
    [4], FLOAT, WEIGHTS)) + integer(20, 2)))
attack("type-names-empty-field", "The type of axis is INT, but only ints is filled: readers see 0 or -1.",
    softmax(integer(8, -1) + integer(20, 2)))
attack("without-type", "axis has two values and no type, as in IR version 1: readers infer the type from a value.",
    softmax(integer(3, 0) + integer(8, 1)))
attack("type-undefined", "The type of axis is 0 (UNDEFINED) with a value.", softmax(integer(3, 0) + integer(20, 0)))
attack("type-unknown", "The type of axis is 99.", softmax(integer(3, 0) + integer(20, 99)))
attack("string-and-strings", "A string attribute has s and strings.", network([node("Cast", ["x"], ["y"], to=1,
    extra=record(5, record(1, "round_mode") + record(4, "up") + record(9, "down") + integer(20, 3)))], opsets=(("",
    24),), ir_version=12))
attack("value-and-reference", "An attribute in a function has a value and ref_attr_name.", network([node("F", ["x"],
    ["y"], domain="local", axis=0)], opsets=(("", 21), ("local", 1)), functions=[function("F", [node("Softmax", ["a"],
    ["b"], extra=record(5, attribute("axis", 0, record(21, "axis"))))], ["a"], ["b"], attributes=["axis"])]))
attack("graph-and-tensor", "then_branch has a graph and a tensor; its type is TENSOR.", network([node("If", ["c"],
    ["y"], extra=record(5, record(1, "then_branch") + record(6, graph([node("Identity", ["x"], ["a"])], [],
    [value("a")])) + record(5, tensor(None, [4], FLOAT, WEIGHTS)) + integer(20, 4)), else_branch=graph([node("Identity",
    ["x"], ["b"])], [], [value("b")]))], [scalar("c", True, BOOL)]))

attack = declare("duplicate-key", "readers",
    "A key, name or version occurs twice where it must be unique.", "CWE-694", AFFECTED)
attack("opset-twice", "Two versions of the default operator set are imported, 21 and 1.", model(IDENTITY, opsets=(("",
    21), ("", 1))))
attack("opset-empty-and-ai-onnx", "The default domain is imported as '' and as 'ai.onnx', with different versions.",
    model(IDENTITY, opsets=(("", 21), ("ai.onnx", 7))))
attack("metadata-key-twice", "A metadata key occurs twice with different values.", model(IDENTITY,
    metadata=(("license", "MIT"), ("license", "proprietary"))))
attack("external-location-twice", "External data has two locations.", model_with_weight(external_pairs("w", [(
    "location", "dup.bin"), ("location", "../outside.bin")])), files={"dup.bin": WEIGHTS})
attack("external-offset-twice", "External data has two offsets.", model_with_weight(external_pairs("w", [("location",
    "dup2.bin"), ("offset", "0"), ("offset", "16")])), files={"dup2.bin": WEIGHTS + OTHER_WEIGHTS})
attack("attribute-twice", "A node has two attributes named axis.", network([node("Softmax", ["x"], ["y"], axis=0,
    extra=record(5, attribute("axis", -1)))]))
attack("initializer-twice", "Two initializers have the name w.", model_with_extras([values("w", [9.0, 9.0, 9.0, 9.0])]))
attack("function-twice", "Two functions have the same domain, name and overload.", network([node("F", ["x"], ["y"],
    domain="local")], opsets=(("", 21), ("local", 1)), functions=[function("F", [node("Identity", ["a"], ["b"])],
    ["a"], ["b"]), function("F", [node("Neg", ["a"], ["b"])], ["a"], ["b"])]))
attack("input-twice", "Two inputs have the name x and different types.", network([node("Identity", ["x"], ["y"])],
    inputs=[X, value("x", INT64, [2])]))
attack("value-produced-twice", "Two nodes produce y: the graph is not in SSA form.", network([node("Identity", ["x"],
    ["y"]), node("Neg", ["x"], ["y"])]))
attack("initializer-and-output", "An initializer has the name of a node's output.", network([node("Neg", ["x"],
    ["y"]), node("Identity", ["x"], ["w"])], [values("w", [9.0] * 4)]))
attack("value-info-twice", "Two value_info entries give y different types.", model_with_extras(value_infos=[value("y",
    INT64, [9]), value("y", DOUBLE, [1])]))
attack("sparse-and-dense", "A sparse and a dense initializer have the name w.", model_with_extras(sparse=[sparse("w", [
    4], [9.0], [0])]))
attack("subgraph-shadows",
    "A branch defines a value with the name of an outer value: readers resolve the name differently.",
    network([node("If", ["c"], ["y"], then_branch=graph([node("Neg", ["x"], ["x"]), node("Identity", ["x"], ["a"])],
    [], [value("a")]), else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")]))], [scalar("c", True,
    BOOL)]))
attack("output-twice", "The graph lists the output y twice.", network([node("Identity", ["x"], ["y"])], outputs=[Y,
    value("y", INT64)]))
attack("checksum-twice", "External data has two different checksums.", model_with_weight(external_pairs(
    "w", [("location", "dup3.bin"), ("checksum", "9" * 40), ("checksum", "0" * 40)])), files={"dup3.bin": WEIGHTS})

attack = declare("trailing-bytes", "readers",
    "The model is followed by bytes that some readers ignore and others parse.", "CWE-436", AFFECTED)
attack("nul-byte", "A NUL byte follows the model.", model(IDENTITY) + b"\0")
attack("padding", "512 NUL bytes follow the model.", model(IDENTITY) + bytes(512))
attack("text", "A line of text follows the model.", model(IDENTITY) + b"\n# trusted: yes\n")
attack("end-group", "An end-group tag follows the model: some parsers stop there without an error.",
    model(IDENTITY) + tag(100, END_GROUP) + record(7, record(1, node("Neg", ["x"], ["z"]))))
attack("cut-record", "The last record runs past the end of the file.",
    model(IDENTITY) + tag(6, LEN) + varint(100) + b"short")
attack("second-model", "A complete second model follows: protobuf merges both graphs.",
    model(IDENTITY) + model(graph([node("Neg", ["x"], ["z"])], [], [value("z", FLOAT, [4])])))
attack("cut-tag", "The file ends within a varint.", model(IDENTITY) + b"\xb2")

attack = declare("unknown-field", "readers",
    "A field that the schema does not have contains data, which tools silently copy or remove.", "CWE-506", AFFECTED)
BLOB = bytes(range(256)) * 8
attack("model-bytes", "The model has a field 900 with 2 KiB of content.", model(IDENTITY, extra=record(900, BLOB)))
attack("tensor-bytes", "A tensor has a field 500 with 2 KiB of content.", model_with_weight(tensor("w", [4], FLOAT,
    WEIGHTS, record(500, BLOB))))
attack("node-in-node", "A node has a field 31 that contains another node.", network([node("Identity", ["x"], ["y"],
    extra=record(31, node("PyOp", ["x"], ["z"], domain="ai.onnx.contrib")))]))
attack("group", "The graph has an unknown group with 2 KiB of content.", model(graph([node("Identity", ["x"], ["y"])],
    [X], [Y], extra=group(400, record(1, BLOB)))))
attack("largest-number", "The model has field 2^29 - 1 with content.", model(IDENTITY, extra=record((1 << 29) - 1,
    BLOB)))
attack("reserved-number", "The model has field 19000, reserved by protobuf, with content.", model(IDENTITY,
    extra=record(19000, BLOB)))
attack("field-zero", "The model has field 0, which protobuf refuses.", model(IDENTITY, extra=record(0, BLOB)))
attack("numbers", "A tensor has 500 records of an unknown fixed64 field.", model_with_weight(tensor("w", [4],
    FLOAT, WEIGHTS, b"".join(fixed64(77, 0x0123456789ABCDEF + i) for i in range(500)))))
attack("entry-bytes", "A metadata entry has a third field with content.", model(IDENTITY, extra=record(14,
    entry("author", "me") + record(3, BLOB))))
attack("dimension-bytes", "A dimension has an unknown field with content.", network([node("Identity", ["x"], ["y"])],
    inputs=[typed("x", record(1, integer(1, FLOAT) + record(2, record(1, dimension(4) + record(9, BLOB)))))]))
attack("wire-type-six", "A record has wire type 6, which does not exist.", model(IDENTITY, extra=tag(100, 6) + b"abcd"))

attack = declare("invalid-utf8", "readers",
    "A string is not valid UTF-8: readers refuse, replace, truncate or normalize it.", "CWE-176", AFFECTED)
attack("node-name", "The name of a node has the byte FF.", network([node("Identity", ["x"], ["y"], name=b"name\xff")]))
attack("op-type-overlong", "op_type spells Neg with an overlong 'e': a decoder that accepts it runs Neg.",
    network([node(b"N\xc1\xa5g", ["x"], ["y"])]))
attack("location-overlong", "The location is '../outside.bin' with overlong dots and slash.",
    model_with_weight(external_pairs("w", [("location", b"\xc0\xae\xc0\xae\xc0\xafoutside.bin")])))
attack("surrogate", "A value name has a lone surrogate.", network([node("Neg", ["x"], [b"v\xed\xa0\x80"]), node("Neg",
    [b"v\xed\xa0\x80"], ["y"])]))
attack("cesu", "A value name has a surrogate pair in six bytes (CESU-8).", network([node("Neg", ["x"],
    [b"\xed\xa0\xbd\xed\xb8\x80"]), node("Neg", [b"\xed\xa0\xbd\xed\xb8\x80"], ["y"])]))
attack("modified-nul", "A name has the two-byte NUL of modified UTF-8.", network([node("Identity", ["x"], ["y"],
    name=b"a\xc0\x80b")]))
attack("cut-sequence",
    "A metadata key ends within a character: a careless decoder takes the byte after the key for a part of it.",
    model(IDENTITY, metadata=((b"key\xe2\x82", "value"),)))
