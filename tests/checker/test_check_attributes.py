"""Further tests of the rules of attributes: many attributes, long strings, messages, ref_attr_name."""

import pytest
from check_case import model, node

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto


def _model(*attributes):
    """Return the bytes of a model whose only node has these attributes."""
    nodes = [NodeProto(op_type="A", output=["o"], attribute=list(attributes))]
    return ModelProto(ir_version=8, graph=GraphProto(name="g", node=nodes)).SerializeToString()


@pytest.mark.parametrize("count", [2, 8, 9, 1_000])
def test_a_repeated_name_is_found_among_few_and_many_attributes(count):
    names = [f"a{i}" for i in range(count - 1)]
    data = _model(*(AttributeProto(name=name) for name in [*names, "a0"]))
    (problem,) = onnxwire.check(data, select="attribute-name-unique")
    assert problem.path == f"graph.node[0].attribute[{count - 1}]"


def test_different_nodes_may_have_attributes_of_the_same_name():
    text = model(node("", "o", 'attribute { name: "a" type: INT i: 1 }') * 3)
    assert onnxwire.check(onnxwire.from_text(text).SerializeToString(), select="attribute-name-unique") == []


@pytest.mark.parametrize(
    ("string", "is_valid"),
    [
        ("é".encode() * 40_000, True),
        (b"a" * 65_535 + "é".encode(), True),
        (b"a" * 65_535 + b"\xc3", False),
        (b"a" * 65_534 + b"\xff" + b"a", False),
        # The invalid byte is beyond the limit, so it is not scanned.
        (b"a" * 65_536 + b"\xff", True),
    ],
    ids=["long", "cut in a character", "ends in a character", "broken", "broken after"],
)
def test_the_first_64_kib_of_a_string_are_scanned(string, is_valid):
    data = _model(AttributeProto(name="a", type=AttributeProto.STRING, s=string))
    assert (onnxwire.check(data, select="attribute-string-utf8") == []) == is_valid


def test_the_message_names_the_fields_that_have_values():
    data = _model(AttributeProto(name="a", type=AttributeProto.INT, i=1, ints=[2], s=b""))
    (problem,) = onnxwire.check(data, select="attribute-single-value-field")
    assert "values in `i`, `s`, `ints`;" in problem.message


def test_the_message_of_a_mismatch_names_both_types():
    (problem,) = onnxwire.check(
        _model(AttributeProto(name="a", type=AttributeProto.INT, floats=[1])), select="attribute-type-matches-field"
    )
    assert problem.message.startswith(
        "attribute 'a' has type INT, and its value is in `floats`; set the type to FLOATS"
    )


@pytest.mark.parametrize("root", [NodeProto, AttributeProto])
def test_a_reference_outside_of_a_model_is_not_reported(root):
    attribute = AttributeProto(name="a", type=AttributeProto.INT, ref_attr_name="p")
    message = attribute if root is AttributeProto else NodeProto(op_type="A", output=["o"], attribute=[attribute])
    assert onnxwire.check(message.SerializeToString(), root, select="error") == []
