"""The nesting limit of `summarize`, whose result `onnxwire info` prints."""

from __future__ import annotations

import onnx
import pytest
from google.protobuf.message import DecodeError
from wire import len_record

import onnxwire
from onnxwire.analysis.summary import summarize


@pytest.mark.parametrize("field_numbers", [[7], [20, 1], [25, 7, 5, 6], [25, 11, 6]])
def test_graphs_are_read_up_to_the_nesting_limit_of_protobuf(field_numbers):
    """field_numbers: the fields from the model to the outermost graph.

    In a model, 7 is graph, 20 training_info and 25 functions. In training_info, 1 is initialization. In a function,
    7 is node and 11 attribute_proto. In a node, 5 is attribute. In an attribute, 6 is g.
    """

    def can_read(read, error_class, data):
        """Return whether a function reads the data. A DecodeError of onnxwire must be that of the nesting limit."""
        try:
            read(data)
        except error_class as error:
            assert error_class is DecodeError or "nested more than 100 deep" in str(error)
            return False
        return True

    results = []
    for n_graphs in range(28, 36):
        data = b""
        for number in [*field_numbers, *[1, 5, 6] * n_graphs][::-1]:  # graph, node, attribute, graph, ...
            data = len_record(number, data)
        is_accepted = can_read(lambda data: summarize(onnxwire.load(data)), onnxwire.DecodeError, data)
        assert is_accepted == can_read(onnx.ModelProto.FromString, DecodeError, data)
        results.append(is_accepted)
    assert sorted(results, reverse=True) == results
    assert results[0]
    assert not results[-1]
