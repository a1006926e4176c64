"""Cases of the rules of attributes: a model that breaks the rule, a valid model, and the paths of the problems."""

from check_case import Case, graph_attribute, model, node, sparse, tensor

from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto


def _model_with_attributes(*attributes: str, ir: int = 8) -> str:
    """Return a model whose only node has these attributes."""
    return model(node("", "o", "".join(f"attribute {{ {content} }}" for content in attributes)), ir)


def _model_with_named_attributes(*contents: str, ir: int = 8) -> str:
    """Return a model whose only node has these attributes, named a0, a1, ..."""
    return _model_with_attributes(*(f'name: "a{i}" {content}' for i, content in enumerate(contents)), ir=ir)


def _model_with_function(content: str, parameters: str = "", ir: int = 9) -> str:
    """Return a model with a function of one node. parameters: the attributes that the function declares.

    content: the fields of the node's attribute, without its name.
    """
    imports = "opset_import { version: 17 }"
    body = node("", "o", f'attribute {{ name: "a" {content} }}')
    return model(ir=ir, fields=f'functions {{ name: "F" domain: "a.b" {imports} {parameters} {body} }}')


def _attribute_paths(*indexes: int) -> tuple[str, ...]:
    """Return the paths of attributes of the first node."""
    return tuple(f"graph.node[0].attribute[{index}]" for index in indexes)


def _model_with_attribute_bytes(attribute: bytes) -> bytes:
    """Return the bytes of a model whose only node has this attribute. attribute: the bytes of an AttributeProto."""
    # b"\x2a" is the tag of NodeProto.attribute, b"\x0a" that of GraphProto.node, and b"\x3a" that of ModelProto.graph.
    node_bytes = (
        NodeProto(op_type="A", output=["o"]).SerializeToString() + b"\x2a" + bytes([len(attribute)]) + attribute
    )
    graph_bytes = GraphProto(name="g").SerializeToString() + b"\x0a" + bytes([len(node_bytes)]) + node_bytes
    return ModelProto(ir_version=8).SerializeToString() + b"\x3a" + bytes([len(graph_bytes)]) + graph_bytes


_TENSOR = f"t {{ {tensor('t')} }}"
_SPARSE = f"sparse_tensor {{ {sparse('s')} }}"
_TYPE = "tp { tensor_type { elem_type: 1 } }"
_FUNCTION_ATTRIBUTE_PATHS = ("functions[0].node[0].attribute[0]",)
_REFERENCE = 'type: INT ref_attr_name: "p"'

# The fields of an attribute with a graph; an attribute of the graph's node refers to the parameter p of a function.
_NESTED_REFERENCE = "type: GRAPH " + "g { name: 'h' " + node("", "t", f'attribute {{ name: "x" {_REFERENCE} }}') + " }"

CASES = {
    "attribute-name-present": Case(
        _model_with_attributes("type: INT i: 1"),
        _model_with_attributes('name: "a" type: INT i: 1'),
        _attribute_paths(0),
    ),
    "attribute-name-unique": Case(
        _model_with_attributes('name: "a" type: INT i: 1', 'name: "b" type: INT i: 1', 'name: "a" type: INT i: 1'),
        _model_with_attributes('name: "a" type: INT i: 1', 'name: "b" type: INT i: 1'),
        _attribute_paths(2),
    ),
    "attribute-name-vs-values": Case(
        model(node("x", "y", 'attribute { name: "x" type: INT i: 1 } attribute { name: "y" type: INT i: 1 }')),
        model(node("x", "y", 'attribute { name: "z" type: INT i: 1 }') + node("z", "w")),
        _attribute_paths(0, 1),
    ),
    "attribute-type-present": Case(
        _model_with_named_attributes("i: 1"), _model_with_named_attributes("type: INT i: 1"), _attribute_paths(0)
    ),
    # AttributeProto: name "a", type 99, and i 1. In the valid model, a second record sets the type to INT.
    "attribute-type-valid": Case(
        _model_with_attribute_bytes(b"\x0a\x01a\xa0\x01\x63\x18\x01"),
        _model_with_attribute_bytes(b"\x0a\x01a\xa0\x01\x63\xa0\x01\x02\x18\x01"),
        _attribute_paths(0),
    ),
    "attribute-type-matches-field": Case(
        _model_with_named_attributes(
            "type: INT f: 1", "type: INTS i: 1", f"type: SPARSE_TENSOR {_TENSOR}", "type: FLOATS ints: 1"
        ),
        _model_with_named_attributes(
            "type: FLOAT f: 1", "type: INTS ints: 1", f"type: SPARSE_TENSOR {_SPARSE}", "type: FLOATS"
        ),
        _attribute_paths(0, 1, 2, 3),
    ),
    "attribute-single-value-field": Case(
        _model_with_named_attributes("type: INT i: 1 f: 1", 'type: STRINGS strings: "" s: ""'),
        _model_with_named_attributes("type: INT i: 1", 'type: STRINGS strings: "" strings: ""'),
        _attribute_paths(0, 1),
    ),
    "attribute-message-value-present": Case(
        _model_with_named_attributes("type: TENSOR", "type: GRAPH", "type: SPARSE_TENSOR", "type: TYPE_PROTO"),
        _model_with_named_attributes(
            f"type: TENSOR {_TENSOR}", 'type: GRAPH g { name: "h" }', f"type: TYPE_PROTO {_TYPE}", "type: TENSORS"
        ),
        _attribute_paths(0, 1, 2, 3),
    ),
    "attribute-scalar-value-present": Case(
        _model_with_named_attributes("type: FLOAT", "type: INT", "type: STRING"),
        _model_with_named_attributes("type: FLOAT f: 0", "type: INT i: 0", 'type: STRING s: ""', "type: INTS"),
        _attribute_paths(0, 1, 2),
    ),
    # b"\x42\x00" is an empty packed record of ints. It has no entries, but an empty string is an entry.
    "attribute-list-may-be-empty": Case(
        _model_with_attribute_bytes(
            AttributeProto(name="a", type=AttributeProto.INTS).SerializeToString() + b"\x42\x00"
        ),
        _model_with_named_attributes('type: STRINGS strings: ""', "type: INTS ints: 0"),
        _attribute_paths(0),
    ),
    "attribute-value-absent-ir1": Case(
        _model_with_named_attributes("", ir=1), _model_with_named_attributes("i: 0", ir=1), _attribute_paths(0)
    ),
    "attribute-string-utf8": Case(
        _model_with_named_attributes(r'type: STRING s: "\xff"', r'type: STRINGS strings: "a" strings: "\xc3"'),
        _model_with_named_attributes(r'type: STRING s: "\xc3\xa9"', r'type: STRINGS strings: "a" strings: "\xc3\xa9"'),
        _attribute_paths(0, 1),
    ),
    # Only the first attribute without documentation is reported.
    "attribute-doc-string-present": Case(
        _model_with_named_attributes('doc_string: "d"', "", ""),
        _model_with_named_attributes('doc_string: "d"', 'doc_string: "d"'),
        _attribute_paths(1),
    ),
    "attribute-ref-only-in-function": Case(
        model(node("", "o", graph_attribute(node("", "t", f'attribute {{ name: "a" {_REFERENCE} }}')))),
        _model_with_function(_NESTED_REFERENCE, 'attribute: "p"'),
        ("graph.node[0].attribute[0].g.node[0].attribute[0]",),
    ),
    "attribute-ref-no-value": Case(
        _model_with_function(f"{_REFERENCE} i: 1", 'attribute: "p"'),
        _model_with_function(_REFERENCE, 'attribute: "p"'),
        _FUNCTION_ATTRIBUTE_PATHS,
    ),
    "attribute-ref-declared": Case(
        _model_with_function(_NESTED_REFERENCE, 'attribute: "q"'),
        _model_with_function(_NESTED_REFERENCE, 'attribute_proto { name: "p" type: INT i: 1 }'),
        ("functions[0].node[0].attribute[0].g.node[0].attribute[0]",),
    ),
    "attribute-ref-type-match": Case(
        _model_with_function(_REFERENCE, 'attribute_proto { name: "p" type: FLOAT f: 1 }'),
        _model_with_function(_REFERENCE, 'attribute_proto { name: "p" type: INT i: 1 }'),
        _FUNCTION_ATTRIBUTE_PATHS,
    ),
    "attribute-sparse-before-ir6": Case(
        _model_with_named_attributes(f"type: SPARSE_TENSOR {_SPARSE}", "type: SPARSE_TENSORS", ir=5),
        _model_with_named_attributes(f"type: TENSOR {_TENSOR}", ir=5),
        _attribute_paths(0, 1),
    ),
    "attribute-type-proto-before-ir8": Case(
        _model_with_named_attributes(f"type: TYPE_PROTO {_TYPE}", "type: TYPE_PROTOS", ir=7),
        _model_with_named_attributes(f"type: TENSOR {_TENSOR}", ir=7),
        _attribute_paths(0, 1),
    ),
}
