"""Finds the nodes and constants whose values each node reads, as columns."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.facts import EMPTY
from onnxwire.checker.scopes import Scopes
from onnxwire.checker.small_constants import SmallConstants

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts


class Dataflow:
    """The inputs of all nodes. `facts.derive(Dataflow)` returns the object.

    inputs: the elements of NodeProto.input. For each element, producers: the row of the node that produces the value,
    or -1; tensors: the row of its initializer in TensorProto, or a negative number; is_constant: whether the value is
    such an initializer or the output of a Constant.
    """

    def __init__(self, facts: Facts) -> None:
        nodes, scopes = facts.NodeProto, facts.derive(Scopes)
        self._facts = facts
        self._n_nodes = nodes.n
        self.inputs = facts.lists("NodeProto.input")
        self.producers = scopes.producers
        n_other_definitions = facts.lists("NodeProto.output").n + facts.ValueInfoProto.n
        self.tensors = scopes.definitions - n_other_definitions
        self._is_from_constant = self.are_from(facts.are_among(nodes.op_type, ("Constant",)))
        self.is_constant = (self.tensors >= 0) | self._is_from_constant
        # Whether each input is present, and not a constant.
        self._is_data = (self.inputs.value != EMPTY) & ~self.is_constant

    def are_from(self, is_source: Any) -> Any:
        """Return whether each input is an output of a selected node. is_source: whether each node is selected."""
        return np.append(is_source, False)[self.producers]

    def has_input(self, is_selected: Any) -> Any:
        """Return whether each node has a selected input. is_selected: whether each input is selected."""
        has_selected = np.zeros(self._n_nodes, bool)
        has_selected[self.inputs.parent[is_selected]] = True
        return has_selected

    def reads(self, is_source: Any) -> Any:
        """Return whether each node reads an output of a selected node. is_source: whether each node is selected."""
        return self.has_input(self.are_from(is_source))

    def reads_data_beside(self, is_source: Any) -> Any:
        """Return whether each node has an input that is neither a constant nor an output of a selected node.

        is_source: whether each node is selected.
        """
        return self.has_input(self._is_data & ~self.are_from(is_source))

    def are_read_by(self, is_reader: Any) -> Any:
        """Return whether a selected node reads an output of each node. is_reader: whether each node is selected."""
        is_read = np.zeros(self._n_nodes + 1, bool)
        is_read[self.producers[is_reader[self.inputs.parent]]] = True
        return is_read[:-1]

    def scalar(self, index: int) -> float | None:
        """Return the number of an input that is a constant of one number; None for any other.

        index: the index of the input in `inputs`. Of a Constant, only value, value_float and value_int are read.
        """
        constants = self._facts.derive(SmallConstants)
        if self.tensors[index] >= 0:
            numbers = constants.numbers(int(self.tensors[index]))
            return numbers[0] if numbers and len(numbers) == 1 else None
        if not self._is_from_constant[index]:
            return None
        attributes = constants.attributes(int(self.producers[index]))
        if "value_float" in attributes:
            return float(attributes["value_float"].f)
        if "value_int" in attributes:
            return float(attributes["value_int"].i)
        if "value" not in attributes:
            return None
        with suppress(Exception):  # of a damaged tensor, which other rules report
            array = attributes["value"].t.numpy()
            if array.size == 1 and array.dtype.kind in "iufb":
                return float(array.reshape(-1)[0])
        return None
