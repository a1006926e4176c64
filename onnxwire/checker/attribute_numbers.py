"""Reads the numbers of attributes as arrays, including long attributes such as the nodes of a tree ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxwire.checker.facts import MERGED, Facts
from onnxwire.engine.record_reader import bytes_at
from onnxwire.messages import AttributeProto
from onnxwire.tensor.dtypes import EXTERNAL

MAX_ATTRIBUTE_BYTES = 1 << 26  # maximum encoded size of an attribute that is read


class AttributeNumbers:
    """The numbers in attributes of nodes, decoded on request. `facts.derive(AttributeNumbers)` returns the object."""

    def __init__(self, facts: Facts) -> None:
        self._document = facts.document
        self._text = facts.text
        nodes, attributes = facts.NodeProto, facts.AttributeProto
        self._first, self._count = nodes.first("attribute"), nodes.attribute
        self._names, self._starts, self._lengths = attributes.name, attributes.start, attributes.length
        self._flags = attributes.flags

    def arrays_of(self, node: int, names: set[str]) -> dict[str, Any]:
        """Return the attributes of a node that have one of the names, by name, as one-dimensional arrays.

        A number becomes an array of one element. In a list of strings, `LEAF`, the mode of a leaf in a tree, becomes 0,
        and any other string 1. A tensor of another dtype than numpy's integers and floats becomes ones.
        Omitted are attributes of other types, empty lists and tensors, damaged and external tensors, attributes above
        MAX_ATTRIBUTE_BYTES, and attributes that are encoded in several pieces.
        """
        arrays = {}
        start = int(self._first[node])
        for row in range(start, start + int(self._count[node])):
            name = self._text(int(self._names[row]))
            if name in names and self._lengths[row] <= MAX_ATTRIBUTE_BYTES and not self._flags[row] & MERGED:
                first_byte = int(self._starts[row])
                numbers = _numbers(
                    AttributeProto.FromString(
                        bytes_at(self._document, first_byte, first_byte + int(self._lengths[row]))
                    )
                )
                if numbers is not None and len(numbers):
                    arrays[name] = numbers
        return arrays


def _numbers(attribute: AttributeProto) -> Any:
    """Return the value of an attribute as an array, or None to omit it; see `AttributeNumbers.arrays_of`."""
    if attribute.HasField("i"):
        return np.array([attribute.i], np.int64)
    if attribute.HasField("f"):
        return np.array([attribute.f], np.float32)
    if len(attribute.ints):
        return np.asarray(attribute.ints)
    if len(attribute.floats):
        return np.asarray(attribute.floats)
    if len(attribute.strings):
        return np.array([text != b"LEAF" for text in attribute.strings], np.int64)
    if attribute.HasField("t") and attribute.t.data_location != EXTERNAL:
        try:
            array = attribute.t.numpy().reshape(-1)
        except Exception:  # a damaged tensor, which other rules report
            return None
        return array if array.dtype.kind in "iuf" else np.ones(array.size, np.int64)
    return None
