"""Classes of a node with the known Values of its inputs, and of the scope that resolves names."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from onnxwire.checker.shape_values import OMITTED, Value
from onnxwire.checker.small_constants import MAX_KNOWN_ELEMENTS

if TYPE_CHECKING:
    from onnxwire.checker.shape_bounds import ShapeBounds
    from onnxwire.messages import AttributeProto

_MAX_HEAD_BYTES = 4096  # maximum number of first bytes of a tensor that are read


class Scope:
    """The values of one graph or function.

    values: the known Values by the id of the name. tensors, inputs: the rows of initializers in TensorProto, and of
    inputs in ValueInfoProto, by the id of the name; they are decoded on demand. attributes: in a function, the
    attributes of its call. parent: the scope of the enclosing graph or function, or None.
    """

    __slots__ = ("attributes", "inputs", "parent", "tensors", "values")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.values: dict[int, Value] = {}
        self.tensors: dict[int, int] = {}
        self.inputs: dict[int, int] = {}
        self.attributes: dict[str, AttributeProto] = parent.attributes if parent is not None else {}


class NodeCall:
    """The implementation of `Call` of shape_operators.py.

    bounds: the ShapeBounds that evaluates the node. scope: the scope of the node's names. node: the row of NodeProto.
    """

    __slots__ = ("_attributes", "bounds", "inputs", "node", "op_type", "scope")

    def __init__(self, bounds: ShapeBounds, scope: Scope, node: int, op_type: str, inputs: list[Value]) -> None:
        self.bounds = bounds
        self.scope = scope
        self.node = node
        self.op_type = op_type
        self.inputs = inputs
        self._attributes: dict[str, AttributeProto] | None = None

    def attribute(self, name: str) -> AttributeProto | None:
        """Return the attribute with a name; None if it is absent, above 64 KiB or encoded in several pieces.

        A reference to an attribute of the function is resolved.
        """
        if self._attributes is None:
            self._attributes = self.bounds.constants.attributes(self.node)
        attribute = self._attributes.get(name)
        return (
            self.scope.attributes.get(attribute.ref_attr_name)
            if attribute is not None and attribute.ref_attr_name
            else attribute
        )

    def value(self, index: builtins.int) -> Value | None:
        """Return the Value of an input, or None if the node has fewer inputs."""
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, name: str, input: int | None = None) -> list[int] | None:
        """Return the integers of an input, or of an attribute if the node has no such input.

        Of an attribute, only the first MAX_KNOWN_ELEMENTS are returned. Returns None if the integers are unknown or
        absent, and if elements of the input are not integers.
        """
        if input is not None and input < len(self.inputs) and self.inputs[input] is not OMITTED:
            data = self.inputs[input].data
            return None if data is None or not all(isinstance(number, int) for number in data) else data
        attribute = self.attribute(name)
        return list(attribute.ints)[:MAX_KNOWN_ELEMENTS] if attribute is not None and len(attribute.ints) else None

    def floats(self, name: str) -> list[float] | None:
        """Return the first MAX_KNOWN_ELEMENTS floats of an attribute, or None if it has none."""
        attribute = self.attribute(name)
        return list(attribute.floats)[:MAX_KNOWN_ELEMENTS] if attribute is not None and len(attribute.floats) else None

    def int(self, name: str, default: int) -> int:
        """Return the integer of an attribute, or the default if it has none."""
        attribute = self.attribute(name)
        return attribute.i if attribute is not None and attribute.HasField("i") else default

    def text(self, name: str) -> str:
        """Return the string of an attribute, "" if it is absent."""
        attribute = self.attribute(name)
        return attribute.s.decode("utf-8", "replace") if attribute is not None else ""

    def extent(self, index: builtins.int) -> tuple[builtins.int, builtins.int] | None:
        """Return the least and the greatest number of an input, or None.

        They are known only for a stored tensor of integers of at most 64 KiB.
        """
        tensor = self._tensor(index)
        return None if tensor < 0 else self.bounds.constants.extent(tensor)

    def count(self, name: str) -> builtins.int:
        """Return the number of integers or strings of an attribute, 0 if it is absent. References are not resolved."""
        row = self.bounds.constants.attribute_rows(self.node).get(name)
        if row is None:
            return 0
        columns = ("ints", "strings")
        return max(builtins.int(self.bounds.constants.column("AttributeProto", column)[row]) for column in columns)

    def head(self, index: builtins.int) -> bytes:
        """Return the first bytes of an input that is a stored tensor; b"" if they are unknown.

        They are known only for a tensor with raw_data, or of at most 1 KiB that is neither external nor damaged.
        """
        tensor = self._tensor(index)
        return b"" if tensor < 0 else self.bounds.constants.head(tensor, _MAX_HEAD_BYTES)

    def _tensor(self, index: builtins.int) -> builtins.int:
        """Return the row of an input that is a stored tensor, or -1.

        Counts a read of elements, for `KnownResults`, if there is such a tensor.
        """
        value = self.value(index)
        if value is None or value.tensor < 0:
            return -1
        self.bounds.results_cache.n_element_reads += 1
        return value.tensor

    def _own_tensor(self) -> builtins.int:
        """Return the row of the tensor in the attribute `value`, or -1."""
        row = self.bounds.constants.attribute_rows(self.node).get("value")
        return -1 if row is None else self.bounds.constants.column("AttributeProto", "t")[row]

    def constant(self) -> Value | None:
        """Return the value of Constant, or the element that ConstantOfShape repeats; None if it is unknown."""
        for name in ("value", "value_ints", "value_int", "value_floats", "value_float"):
            attribute = self.attribute(name)
            if attribute is None or (name == "value" and not attribute.HasField("t")):
                continue
            if name == "value":
                value = self.bounds.value_of_tensor(attribute.t)
                if value.data is None:
                    value.tensor = self._own_tensor()
                return value
            if name in ("value_ints", "value_floats"):
                numbers = list(attribute.ints if name == "value_ints" else attribute.floats)
                return Value((len(numbers),), numbers if len(numbers) <= MAX_KNOWN_ELEMENTS else None)
            return Value((), [attribute.i if name == "value_int" else attribute.f])
        tensor = self._own_tensor()
        if tensor >= 0:  # `attribute` omits the attribute, which is too long or in several pieces
            return self.bounds.value_of_row(tensor)
        attribute = self.attribute("value_string")
        if attribute is None:
            return None
        value = Value(())
        value.text_bytes = len(attribute.s)
        return value
