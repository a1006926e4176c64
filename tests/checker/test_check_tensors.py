"""Further tests of the rules of tensors: encodings, positions, limits of scans, agreement with the official checker."""

import random

import onnx
import pytest
from check_case import model
from wire import len_record, varint

import onnxwire
from onnxwire import AttributeProto, TensorProto
from onnxwire.tensor.dtypes import BY_NUMBER, FIELDS

COUNT_RULE = "tensor-typed-data-count"
# Field numbers of TensorProto.
INT32_DATA, INT64_DATA, DOC_STRING = 5, 7, 12
# Field numbers of AttributeProto: t and tensors.
TENSOR, TENSORS = 5, 10


def _rules(data, type=TensorProto, **options):
    """Return the ids of the rules that a message breaks."""
    return {problem.rule for problem in onnxwire.check(data, type, **options)}


def _int64_tensor(dims, *records):
    """Return the bytes of a tensor of type INT64. records: encoded records after its type and dims."""
    return TensorProto(dims=dims, data_type=TensorProto.INT64).SerializeToString() + b"".join(records)


def test_packed_and_single_numbers_are_counted_alike():
    packed_run, single_number, unrelated_record = (
        len_record(INT64_DATA, varint(1) + varint(300)),
        varint(INT64_DATA << 3) + varint(5),
        len_record(DOC_STRING, b"doc"),
    )
    assert COUNT_RULE not in _rules(_int64_tensor([5], packed_run, single_number, unrelated_record, packed_run))
    assert COUNT_RULE not in _rules(_int64_tensor([2], single_number, unrelated_record, single_number))
    assert COUNT_RULE in _rules(_int64_tensor([4], packed_run, single_number, unrelated_record, packed_run))
    assert COUNT_RULE in _rules(_int64_tensor([1], single_number, unrelated_record, single_number))


def test_a_tensor_that_is_encoded_in_pieces_is_checked_as_one_tensor():
    numbers = [len_record(INT64_DATA, varint(1)), len_record(INT64_DATA, varint(2) + varint(3))]
    attribute = AttributeProto(name="a", type=AttributeProto.TENSOR).SerializeToString()
    pieces = [len_record(TENSOR, piece) for piece in (_int64_tensor([3]), *numbers)]
    assert COUNT_RULE not in _rules(attribute + b"".join(pieces), AttributeProto)
    assert COUNT_RULE in _rules(attribute + b"".join(pieces[:2]), AttributeProto)


def test_an_empty_packed_run_has_no_elements():
    assert "tensor-single-storage" in _rules(_int64_tensor([1], len_record(INT64_DATA, b"")))
    assert _rules(_int64_tensor([0], len_record(INT64_DATA, b"")), select="error") == set()


def test_the_count_of_a_very_long_list_is_estimated_from_its_bytes():
    # A varint has 1 to 10 bytes, so a run of 2 * n bytes has n / 5 to 2 * n elements.
    n = 1 << 20
    run = len_record(INT64_DATA, varint(300) * n)
    assert COUNT_RULE not in _rules(_int64_tensor([n], run))
    assert COUNT_RULE in _rules(_int64_tensor([2 * n + 1], run))
    assert COUNT_RULE in _rules(_int64_tensor([n // 10], run))
    (problem,) = onnxwire.check(_int64_tensor([n // 10], run), TensorProto, select=COUNT_RULE)
    assert "but it is longer" in problem.message


def test_only_the_first_64_kib_of_raw_data_are_scanned():
    rule = "tensor-raw-bool-values"
    n = 1 << 17
    tensor = TensorProto(dims=[n], data_type=TensorProto.BOOL)
    for offset, expected in ((0, {rule}), ((1 << 16) - 1, {rule}), (1 << 16, set())):
        tensor.raw_data = bytes(offset) + b"\2" + bytes(n - offset - 1)
        assert _rules(tensor.SerializeToString(), select=rule) == expected


def test_a_document_of_many_tensors_is_scanned_up_to_a_limit():
    rule = "tensor-int32-data-range"
    encoded = TensorProto(dims=[1 << 16], data_type=TensorProto.UINT8).SerializeToString()
    encoded += len_record(INT32_DATA, bytes((1 << 16) - 2) + varint(256))
    data = b"".join(len_record(TENSORS, encoded) for _ in range(300))
    # The limit is 16 MiB, and each tensor has 64 KiB of int32_data, so at most 256 tensors are scanned.
    assert 250 <= len(onnxwire.check(data, AttributeProto, select=rule)) <= 256


def test_rules_of_inline_values_are_not_applied_to_external_tensors():
    tensor = TensorProto(dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    assert not any(rule.startswith("tensor-") for rule in _rules(tensor.SerializeToString()))


def test_tensors_are_checked_at_any_position():
    invalid_tensor = 'data_type: 1 dims: 2 name: "t"'
    text = model(
        f"sparse_initializer {{ values {{ {invalid_tensor} }} indices {{ {invalid_tensor} }} dims: 4 }}"
        f'node {{ op_type: "A" output: "o" attribute {{ name: "a" type: TENSORS tensors {{ {invalid_tensor} }} }}'
        f' attribute {{ name: "g" type: GRAPH g {{ name: "h" initializer {{ {invalid_tensor} }} }} }} }}',
        fields=f'functions {{ name: "f" attribute_proto {{ name: "a" type: TENSOR t {{ {invalid_tensor} }} }} }}',
    )
    problems = onnxwire.check(onnxwire.from_text(text).SerializeToString(), select="tensor-single-storage")
    assert {problem.path for problem in problems} == {
        "graph.sparse_initializer[0].values",
        "graph.sparse_initializer[0].indices",
        "graph.node[0].attribute[0].tensors[0]",
        "graph.node[0].attribute[1].g.initializer[0]",
        "functions[0].attribute_proto[0].t",
    }


def _random_tensor(rng):
    """Return a tensor of the official runtime that may have an invalid type, invalid dims or wrong data."""
    tensor = onnx.TensorProto(data_type=rng.randrange(30), dims=rng.choices([0, 1, 2, 3, 5, -1], k=2))
    element_type = BY_NUMBER.get(tensor.data_type)
    n_elements = tensor.dims[0] * tensor.dims[1]
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
        field = rng.choice([element_type.field if element_type else "int32_data", "raw_data", rng.choice(FIELDS)])
        length = rng.randrange(7)
        if element_type and n_elements > 0 and rng.random() < 0.8:
            length = (
                element_type.count_bytes(n_elements) if field == "raw_data" else element_type.count_entries(n_elements)
            )
        if field == "raw_data":
            tensor.raw_data = bytes(rng.choices([0, 1, 255], k=length))
        elif field == "string_data":
            tensor.string_data.extend([b"s"] * length)
        else:
            getattr(tensor, field).extend(rng.choices([0, 1, 63, 64], k=length))
    return tensor


@pytest.mark.parametrize("seed", range(8))
def test_a_tensor_that_the_official_checker_rejects_has_an_error(seed):
    rng = random.Random(seed)
    for _ in range(200):
        data = _random_tensor(rng).SerializeToString()
        if not any(problem.severity == "error" for problem in onnxwire.check(data, TensorProto)):
            onnx.checker.check_tensor(onnx.TensorProto.FromString(data))
