"""Functions that make hostile models (MODELS), texts (TEXTS) and JSON (JSONS) of up to about `size` bytes, by name."""

from __future__ import annotations

from wire_bytes import len_record, varint

from onnxwire import ModelProto

# The field numbers in this module are those of onnx.proto. Field 1000 is unknown.
#
# ModelProto: 6 doc_string, 7 graph, 20 training_info, 25 functions.
# GraphProto: 1 node, 5 initializer, 11 input, 12 output, 15 sparse_initializer.
# NodeProto: 1 input, 2 output, 3 name, 4 op_type, 5 attribute.
# AttributeProto: 5 t, 6 g, 8 ints, 9 strings, 10 tensors, 11 graphs, 20 type.
# TensorProto: 1 dims, 2 data_type, 6 string_data, 7 int64_data, 8 name, 9 raw_data, 13 external_data, 14 data_location.
# ValueInfoProto: 1 name, 2 type. TypeProto: 1 tensor_type, 4 sequence_type. TypeProto.Sequence: 1 elem_type.
# TypeProto.Tensor: 1 elem_type, 2 shape.
# TensorShapeProto: 1 dim. TensorShapeProto.Dimension: 1 dim_value, 2 dim_param. SparseTensorProto: 1 values.
# FunctionProto: 1 name, 4 input, 7 node. TrainingInfoProto: 3 initialization_binding. OperatorSetIdProto: 2 version.
# StringStringEntryProto: 1 key, 2 value. TensorAnnotation: 1 tensor_name, 2 quant_parameter_tensor_names.
#
# Tags in bytes literals: \x08, \x10, \x70 and \xa0\x01 precede a varint of the fields 1, 2, 14 and 20; \x0a and \x12
# precede the length and the bytes of the fields 1 and 2.


def fields(*path):
    """Return the field numbers along a path of names from a ModelProto, and the descriptor of the message type at the
    end of the path, or None if the last field is a scalar."""
    descriptor, numbers = ModelProto.DESCRIPTOR, []
    for name in path:
        field = descriptor.fields_by_name[name]
        numbers.append(field.number)
        descriptor = field.message_type
    return numbers, descriptor


def wrap(numbers, data):
    """Return a message that contains `data` at a path of field numbers."""
    for number in reversed(numbers):
        data = len_record(number, data)
    return data


def copies_of(path, element=b""):
    """Return a function that makes a model full of copies of one element of a repeated field."""

    def make(size):
        numbers, _ = fields(*path)
        record = len_record(numbers[-1], element)
        return wrap(numbers[:-1], record * max(size // len(record), 1))

    return make


def elements_of(path, make_element):
    """Return a function that makes a model full of the elements `make_element(index)` of a repeated field."""

    def make(size):
        numbers, _ = fields(*path)
        out, index = bytearray(), 0
        while len(out) < size:
            out += len_record(numbers[-1], make_element(index))
            index += 1
        return wrap(numbers[:-1], bytes(out))

    return make


def nested_messages(start_numbers, step_numbers, content=b"", limit=1 << 60):
    """Return a function that makes a model with a message that is nested in messages of its own type.

    start_numbers: the field numbers from the model to the outermost message. step_numbers: those from a message to
    the one nested in it. content: the bytes of the innermost message. limit: the maximum depth.
    """

    def make(size):
        heads, n_bytes, depth = [], len(content), 0  # heads: the tags and lengths, from the innermost to the outermost
        while n_bytes < size and depth < limit:
            for number in reversed(step_numbers):
                heads.append(varint(number << 3 | 2) + varint(n_bytes))
                n_bytes += len(heads[-1])
            depth += 1
        return wrap(start_numbers, b"".join(reversed(heads)) + content)

    return make


def name(index):
    """Return a short name that is unique to an index."""
    return f"{index:x}".encode()


def node(inputs=(), outputs=(), *other_records):
    """Return an encoded NodeProto with these inputs, outputs and other encoded records."""
    return b"".join([*(len_record(1, n) for n in inputs), *(len_record(2, n) for n in outputs), *other_records])


def graph_attribute(graph):
    """Return a record of a NodeProto: an attribute whose value is a graph."""
    return len_record(5, len_record(6, graph))


def tensor(tensor_name=b"", dims=b"", data=b""):
    """Return an encoded float TensorProto. dims: packed varints. data: the bytes of raw_data."""
    return len_record(8, tensor_name) + (len_record(1, dims) if dims else b"") + b"\x10\x01" + len_record(9, data)


def model_with_shape(dims):
    """Return a model with a float input. dims: the encoded `dim` records of its TensorShapeProto."""
    return len_record(
        7, len_record(11, len_record(1, b"x") + len_record(2, len_record(1, b"\x08\x01" + len_record(2, dims))))
    )


def many_names(size):
    """Make one node with very many inputs and outputs."""
    input_names = [name(index) for index in range(max(size // 10, 1))]
    return len_record(7, len_record(1, node(input_names, [b"o" + n for n in input_names])))


def fan_out(size):
    """Make a node whose output is an output of the graph and an input of all other nodes."""
    nodes = b"".join(len_record(1, node([b"v"], [name(i)])) for i in range(size // 12))
    return len_record(7, len_record(1, node([], [b"v"])) + nodes + len_record(12, len_record(1, b"v")))


def outer_inputs(size):
    """Make a node whose subgraph uses very many outer values, and the nodes that produce these."""
    count = size // 24
    subgraph = len_record(1, node([name(i) for i in range(count)], [b"out"])) + len_record(12, len_record(1, b"out"))
    nodes = b"".join(len_record(1, node([], [name(i)])) for i in range(count))
    return len_record(
        7, nodes + len_record(1, node([], [b"y"], graph_attribute(subgraph))) + len_record(12, len_record(1, b"y"))
    )


def own_sparse(size):
    """Make nodes, each with a subgraph that has a sparse initializer."""
    subgraph = (
        len_record(15, len_record(1, tensor(b"s")))
        + len_record(1, node([b"s"], [b"t"]))
        + len_record(12, len_record(1, b"t"))
    )
    record = len_record(1, node([], [b"y"], graph_attribute(subgraph)))
    return len_record(7, record * (size // len(record)))


def graph_in_many_records(size):
    """Make a model whose graph is stored in very many records, which readers merge."""
    record = len_record(7, len_record(1, node([b"a"], [b"b"])))
    return record * (size // len(record))


def deep_tensors(size):
    """Make graphs nested thirty deep, the innermost with very many tensors, so that paths are long."""
    data = len_record(5, b"") * (size // 2)
    for _ in range(30):
        data = len_record(1, node([], [], graph_attribute(data)))
    return len_record(7, data)


MODELS = {
    "nothing": lambda size: b"",
    "zeros": lambda size: b"\x08\x00" * (size // 2),
    "unknown varints": lambda size: varint(1000 << 3) + b"\x01" + (varint(1000 << 3) + b"\x01") * (size // 4),
    "unknown records": lambda size: len_record(1000, b"") * (size // 4),
    "unknown groups": lambda size: (varint(1000 << 3 | 3) + varint(1000 << 3 | 4)) * (size // 6),
    "nested groups": lambda size: varint(1000 << 3 | 3) * (size // 6) + varint(1000 << 3 | 4) * (size // 6),
    "cut": lambda size: len_record(7, b"\x0a\x00" * (size // 2))[:-1],
    "bytes 0xff": lambda size: b"\xff" * size,
    "one long name": lambda size: len_record(7, len_record(1, len_record(3, b"n" * size))),
    "long names": elements_of(["graph", "node"], lambda i: len_record(3, b"n" * 1000)),
    "a long text": lambda size: len_record(6, b"\n\x1b" * (size // 2)),
    "not UTF-8": lambda size: len_record(7, len_record(1, len_record(3, b"\xff" * size))),
    "many names": many_names,
    "fan-out": fan_out,
    "outer inputs": outer_inputs,
    "own sparse initializers": own_sparse,
    "a merged graph": graph_in_many_records,
    "deep tensors": deep_tensors,
    "a chain": elements_of(["graph", "node"], lambda i: node([name(i)], [name(i + 1)])),
    "a reversed chain": elements_of(["graph", "node"], lambda i: node([name(i + 1)], [name(i)])),
    "cycles": elements_of(["graph", "node"], lambda i: node([name(i ^ 1)], [name(i)])),
    "nodes that read their own output": elements_of(["graph", "node"], lambda i: node([b"a"], [b"a"])),
    "one value produced by all": elements_of(["graph", "node"], lambda i: node([name(i)], [b"x"])),
    "one value read by all": elements_of(["graph", "node"], lambda i: node([b"x"], [name(i)])),
    "an input read by all": lambda size: len_record(7, len_record(11, len_record(1, b"x")) + len_record(1, node([b"x"])) * (size // 5)),  # noqa: E501
    "one name of all nodes": elements_of(["graph", "node"], lambda i: node([], [], len_record(3, b"n"))),
    "suffixes": elements_of(["graph", "node"], lambda i: node([], [b"x", b"x_unused" + b"_" * (i % 50)])),
    "subgraphs": elements_of(
        ["graph", "node"], lambda i: node([], [name(i)], graph_attribute(len_record(1, node([], [b"x"]))))
    ),
    "empty subgraphs": copies_of(["graph", "node"], graph_attribute(b"")),
    "graphs of one attribute": lambda size: len_record(7, len_record(1, len_record(5, len_record(11, b"") * (size // 2)))),  # noqa: E501
    "tensors of one attribute": lambda size: len_record(7, len_record(1, len_record(5, len_record(10, b"") * (size // 2)))),  # noqa: E501
    "a tensor in each attribute": copies_of(["graph", "node", "attribute"], len_record(5, b"")),
    "small tensors": copies_of(["graph", "initializer"], tensor(b"w", b"\x01", b"abcd")),
    "named tensors": elements_of(["graph", "initializer"], lambda i: tensor(name(i), b"\x01", b"abcd")),
    "string tensors": copies_of(["graph", "initializer"], b"\x10\x08\x0a\x01\x01" + len_record(6, b"text")),
    "wide strings": lambda size: len_record(
        7, len_record(5, b"\x10\x08" + len_record(1, varint(size // 4)) + len_record(6, b"s" * (size // 2)) + len_record(6, b"") * (size // 4 - 1))  # noqa: E501
    ),
    "wide dims": lambda size: len_record(7, len_record(5, len_record(1, b"\x01" * size))),
    "huge dims": elements_of(["graph", "initializer"], lambda i: tensor(b"w", b"\xff" * 8 + b"\x7f")),
    "a shape without data": elements_of(["graph", "initializer"], lambda i: tensor(name(i), varint(1 << 40))),
    "typed data": lambda size: len_record(7, len_record(5, b"\x10\x07" + len_record(1, varint(size)) + len_record(7, b"\x01" * size))),  # noqa: E501
    "external tensors": copies_of(
        ["graph", "initializer"], b"\x10\x01\x70\x01" + len_record(13, len_record(1, b"location") + len_record(2, b"none"))  # noqa: E501
    ),
    "values of one type": copies_of(["graph", "value_info"], len_record(1, b"v") + len_record(2, len_record(1, b"\x08\x01"))),  # noqa: E501
    "wide shapes": lambda size: len_record(7, len_record(11, len_record(1, b"x") + len_record(2, len_record(1, len_record(2, len_record(1, b"") * (size // 2)))))),  # noqa: E501
    "untyped inputs": elements_of(["graph", "input"], lambda i: len_record(1, name(i))),
    "untyped initializers": elements_of(["graph", "initializer"], lambda i: len_record(8, name(i))),
    "metadata": elements_of(["metadata_props"], lambda i: len_record(1, name(i)) + len_record(2, b"v")),
    "one key": copies_of(["metadata_props"], len_record(1, b"k") + len_record(2, b"v")),
    "opsets": copies_of(["opset_import"], b"\x10\x01"),
    "functions of one name": copies_of(["functions"], len_record(1, b"f")),
    "functions that call one another": elements_of(
        ["functions"], lambda i: len_record(1, name(i)) + len_record(7, len_record(4, name(i + 1)))
    ),
    "a function that calls itself": lambda size: len_record(
        25, len_record(1, b"f") + len_record(7, len_record(4, b"f")) * (size // 5)
    ),
    "many inputs of a function": lambda size: len_record(25, len_record(4, b"") * (size // 2)),
    "bindings": lambda size: len_record(20, len_record(3, len_record(1, b"k") + len_record(2, b"v")) * (size // 8)),
    "annotations": copies_of(["graph", "quantization_annotation"], len_record(1, b"x") + len_record(2, len_record(1, b"k"))),  # noqa: E501
    "dimensions of -1": lambda size: model_with_shape(len_record(1, b"\x08" + b"\xff" * 9 + b"\x01") * (size // 13)),
    "empty names of dimensions": lambda size: model_with_shape(len_record(1, b"\x12\x00") * (size // 4)),
    "shapes with an empty name of a dimension": copies_of(
        ["graph", "input"], len_record(2, len_record(1, len_record(2, len_record(1, b"\x12\x00"))))
    ),
    "graphs nested": nested_messages([7], [1, 5, 6]),
    "graphs nested thirty deep": nested_messages([7], [1, 5, 6], len_record(1, node([b"x"], [b"y"])) * 100, 30),
    "types nested": nested_messages([7, 11, 2], [4, 1]),
    "attributes of ints": copies_of(["graph", "node", "attribute"], len_record(8, b"\x01\x02\x03")),
    "ints": lambda size: len_record(7, len_record(1, len_record(5, b"\xa0\x01\x07" + len_record(8, b"\x01" * size)))),
    "texts": lambda size: len_record(7, len_record(1, len_record(5, len_record(9, b"") * (size // 2)))),
}  # fmt: skip


def _add_models_of_empty_elements():
    """For each repeated message field at most five fields deep, add a model full of empty elements to MODELS."""
    seen_names = set()
    pending_paths = [()]
    while pending_paths:
        path = pending_paths.pop(0)
        _, descriptor = fields(*path)
        for field in (descriptor or ModelProto.DESCRIPTOR).fields if not path or descriptor else ():
            if field.message_type is None or len(path) > 4:
                continue
            if field.is_repeated and field.full_name not in seen_names:
                seen_names.add(field.full_name)
                MODELS[f"empty {'.'.join([*path, field.name])}"] = copies_of([*path, field.name])
            if field.message_type.full_name not in seen_names:
                seen_names.add(field.message_type.full_name)
                pending_paths.append((*path, field.name))


_add_models_of_empty_elements()


def repeat_middle(text):
    """Return a function that makes `text` without its two bars, the part between them repeated up to the size."""

    def make(size):
        start, repeated_part, end = (part.encode() for part in text.split("|"))
        return start + repeated_part * (size // len(repeated_part)) + end

    return make


def nested_text(opening, content, closing):
    """Return a function that makes a text: `content` inside as many pairs of `opening` and `closing` as fit."""

    def make(size):
        depth = size // (len(opening) + len(closing))
        return (opening * depth + content + closing * depth).encode()

    return make


TEXTS = {
    "nothing": lambda size: b"",
    "blanks": lambda size: b" " * size,
    "comments": lambda size: b"#\n" * (size // 2),
    "empty nodes": repeat_middle("graph {|node{}|}"),
    "empty graphs merged": repeat_middle("|graph{}|"),
    "empty tensors": repeat_middle("graph {|initializer{}|}"),
    "empty metadata": repeat_middle("|metadata_props{}|"),
    # The texts up to "comments between" use notations that no printer writes, in as few bytes as possible.
    "a list of nodes": repeat_middle("graph{node:[{}|,{}|]}"),
    "a list of nodes in angle brackets": repeat_middle("graph{node:[<>|,<>|]}"),
    "a list of nodes with comments": repeat_middle("graph{node:[{}|,{#\n}|]}"),
    "a list of nodes after a byte that is not UTF-8": lambda size: (
        b"#\xff\ngraph{node:[{}" + b",{}" * (size // 3) + b"]}"
    ),
    "nodes in angle brackets": repeat_middle("graph{|node<>|}"),
    "lists of a node": repeat_middle("graph{|node:[{}]|}"),
    "empty lists": repeat_middle("graph{|node:[]|}"),
    "nested lists": repeat_middle("graph{input:[{}|,{type:<tensor_type:<shape:<dim:[{},<>]>>>}|]}"),
    "lists of a number": repeat_middle("graph{initializer{|dims:[1]|}}"),
    "a list of hexadecimal numbers": repeat_middle("graph{initializer{dims:[0x1|,0x1|]}}"),
    "a list of numbers with comments": repeat_middle("graph{initializer{dims:[0|,#\n1|]}}"),
    "a list of names": repeat_middle("graph{node{input:[''|,''|]}}"),
    "lists of a name": repeat_middle("graph{node{|input:['']|}}"),
    "single quotes": repeat_middle("graph{node{|input:''|}}"),
    "comments between": repeat_middle("graph{|node#\n{#\n}|}"),
    "graphs nested": nested_text("graph{node{attribute{g{", "", "}}}}"),
    "types nested": lambda size: (
        b"graph{input{type{" + nested_text("sequence_type{elem_type{", "", "}}")(size) + b"}}}"
    ),
    "open braces": lambda size: b"graph{" * (size // 6),
    "a list of numbers": repeat_middle("graph{initializer{int64_data:[0|,1|]}}"),
    "numbers one by one": repeat_middle("graph{initializer{|int64_data:1 |}}"),
    "floats": repeat_middle("graph{initializer{float_data:[0|,1e9|]}}"),
    "a long number": lambda size: b"ir_version: " + b"1" * size,
    "a long fraction": lambda size: b"graph{node{attribute{f: 0." + b"1" * size + b"}}}",
    "a long name": lambda size: b"graph{name:'" + b"n" * size + b"'}",
    "escapes": repeat_middle("graph{doc_string:'|\\n|'}"),
    "wide escapes": repeat_middle("graph{doc_string:'|\\U0001F600|'}"),
    "octal bytes": repeat_middle("graph{initializer{raw_data:'|\\377|'}}"),
    "strings side by side": repeat_middle("graph{name:|'' |}"),
    "names of a node": repeat_middle("graph{node{|input:'' |}}"),
    "unknown fields": repeat_middle("|nosuch:1 |"),
    "unknown messages": repeat_middle("|nosuch{} |"),
    "unknown messages nested": nested_text("nosuch{", "", "}"),
    "an open string": lambda size: b"graph{name:'" + b"n" * size,
    "a long word": lambda size: b"n" * size,
    "not UTF-8": lambda size: b"graph{name:'" + b"\xff" * size + b"'}",
}  # fmt: skip

JSONS = {
    "nothing": lambda size: b"",
    "blanks": lambda size: b" " * size + b"{}",
    "empty nodes": repeat_middle('{"graph":{"node":[{}|,{}|]}}'),
    "empty tensors": repeat_middle('{"graph":{"initializer":[{}|,{}|]}}'),
    "empty metadata": repeat_middle('{"metadataProps":[{}|,{}|]}'),
    "graphs nested": nested_text('{"graph":{"node":[{"attribute":[{"g":', "{}", "}]}]}}"),
    "arrays nested": nested_text("[", "", "]"),
    "unknown objects nested": nested_text('{"nosuch":', "0", "}"),
    "unknown arrays nested": lambda size: b'{"nosuch":' + nested_text("[", "", "]")(size) + b"}",
    "open brackets": lambda size: b'{"nosuch":' + b"[" * size,
    "numbers": repeat_middle('{"graph":{"initializer":[{"int64Data":[0|,1|]}]}}'),
    "numbers as strings": repeat_middle('{"graph":{"initializer":[{"int64Data":[0|,"1"|]}]}}'),
    "floats": repeat_middle('{"graph":{"initializer":[{"floatData":[0|,1e9|]}]}}'),
    "a long number": lambda size: b'{"irVersion":' + b"1" * size + b"}",
    "a long fraction": lambda size: b'{"irVersion":1.' + b"0" * size + b"}",
    "a long exponent": lambda size: b'{"irVersion":1e' + b"9" * size + b"}",
    "a long name": lambda size: b'{"graph":{"name":"' + b"n" * size + b'"}}',
    "escapes": repeat_middle('{"graph":{"docString":"|\\n|"}}'),
    "wide escapes": repeat_middle('{"graph":{"docString":"|\\ud83d\\ude00|"}}'),
    "lone surrogates": repeat_middle('{"graph":{"docString":"|\\ud83d|"}}'),
    "base64": repeat_middle('{"graph":{"initializer":[{"rawData":"|AAAA|"}]}}'),
    "names of a node": repeat_middle('{"graph":{"node":[{"input":[""|,""|]}]}}'),
    "unknown fields": repeat_middle('{"x":0|,"x":0|}'),
    "one field again": repeat_middle('{"producerName":""|,"producerName":""|}'),
    "nulls": repeat_middle('{"graph":null|,"graph":null|}'),
    "an open string": lambda size: b'{"graph":{"name":"' + b"n" * size,
    "not UTF-8": lambda size: b'{"graph":{"name":"' + b"\xff" * size + b'"}}',
}  # fmt: skip
