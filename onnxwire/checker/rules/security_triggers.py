"""The rule of security about hidden triggers: comparisons with constants that select between values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.dataflow import Dataflow
from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.limits import MAX_TOTAL_READ_BYTES
from onnxwire.checker.registry import rule
from onnxwire.checker.small_constants import SmallConstants
from onnxwire.engine.record_reader import bytes_at

_COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
# Operators whose results serve as conditions.
_TESTS = ("IsNaN", "IsInf", "RegexFullMatch", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
# Operators that select by an input. The position in this tuple is the index of that input.
_SELECTIONS = (
    ("If", "Where", "Loop"),
    ("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "Compress", "SequenceAt", "Slice"),
    ("ScatterND", "ScatterElements", "Slice"),
)
# Functions that compare data with 0, and operators before them that make this a comparison with a constant.
_GATES, _OFFSETS = ("Relu", "Sign", "HardSigmoid", "Clip"), ("Sub", "Abs")
# Operators whose result is a truth value, or a number that represents one, if an input is.
_COMBINATIONS = (
    "And", "Or", "Not", "Xor", "Cast", "ReduceMin", "ReduceMax", "ReduceSum", "ReduceProd", "ReduceMean", "Reshape",
    "Squeeze", "Unsqueeze", "Expand", "Identity", "NonZero", "Transpose", "Flatten", "Clip", "Abs", "Neg", "Relu",
    "Sign", "Concat",
)  # fmt: skip
# Operators whose result is a truth value if one input is and the other inputs are constants. If another input is data,
# the truth value selects how much of the data remains.
_ARITHMETIC = ("Mul", "Sub", "Sum", "Min", "Max", "Add", "Div", "MatMul")
_MAX_COMBINATIONS = 8  # maximum number of successive combinations that are followed
# Functions that are steps if their input was multiplied by a large number, and operators between the multiplication
# and the step.
_STEPS = ("Sigmoid", "Tanh", "Clip", "Relu", "Exp", "HardSigmoid", "Erf")
_SHIFTS = ("Sub", "Add", "Neg", "Abs")
_MIN_STEEPNESS = 1000.0  # minimum factor of such a step
_MAX_KEYS = 2  # maximum number of keys of a LabelEncoder that counts as a comparison
_KEYS = ("keys_strings", "keys_int64s", "keys_floats")
# The table of a Gather is a comparison if it has at least _MIN_TABLE_ROWS rows, of which one to _MAX_USED_ROWS are not
# zero.
_MIN_TABLE_ROWS, _MAX_USED_ROWS = 16, 2
_MAX_TABLE_BYTES = 1 << 16  # maximum size of a table that is read
_STRING, _BOOL = 8, 9  # of TensorProto.DataType


@rule("security-behaviour-trigger", "NodeProto")
def trigger(facts: Facts) -> Iterator[Finding]:
    """Yield selections between values by a comparison with a constant, and comparisons with stored texts."""
    nodes, dataflow = facts.NodeProto, facts.derive(Dataflow)
    is_comparison = facts.are_among(nodes.op_type, _COMPARISONS)
    # Whether the outputs of a node are results of comparisons, or combinations of them with each other and constants.
    is_comparison_result = _are_sources(facts, dataflow, is_comparison)
    is_combination = facts.are_among(nodes.op_type, _COMBINATIONS)
    is_arithmetic = facts.are_among(nodes.op_type, _ARITHMETIC)
    for _ in range(_MAX_COMBINATIONS):
        is_added = dataflow.reads(is_comparison_result) & ~is_comparison_result
        is_added &= is_combination | is_arithmetic & ~dataflow.reads_data_beside(is_comparison_result)
        if not is_added.any():
            break
        is_comparison_result |= is_added
    is_selection = is_arithmetic & ~is_comparison_result & dataflow.reads(is_comparison_result)
    is_comparison_input = dataflow.are_from(is_comparison_result)
    for index, op_types in enumerate(_SELECTIONS):
        is_selection |= facts.are_among(nodes.op_type, op_types) & dataflow.has_input(
            is_comparison_input & (dataflow.inputs.index == index)
        )
    # A stored text in a comparison is a password or a category.
    is_text = np.append(facts.TensorProto.data_type == _STRING, False)
    has_text_input = dataflow.has_input(is_text[np.maximum(dataflow.tensors, -1)])
    yield nodes.at(
        has_text_input & is_comparison & ~is_selection,
        "{op_type!r} compares with a stored text, which may be a password; look at the node in `onnxwire view`",
    )
    yield nodes.at(
        is_selection,
        "{op_type!r} selects by a comparison with a constant, as a hidden trigger would; look at the node in "
        "`onnxwire view`",
    )


def _are_sources(facts: Facts, dataflow: Dataflow, is_comparison: Any) -> Any:
    """Return whether each node compares data with constants, by a comparison or by arithmetic that amounts to one."""
    op_types = facts.NodeProto.op_type
    is_source = is_comparison & dataflow.has_input(dataflow.is_constant)
    is_source |= facts.are_among(op_types, _TESTS)
    is_source |= facts.are_among(op_types, _GATES) & dataflow.reads(facts.are_among(op_types, _OFFSETS))
    is_source |= facts.are_among(op_types, ("Mod",)) & dataflow.reads(facts.are_among(op_types, ("Floor", "Round")))
    is_source |= _are_steps(facts, dataflow)
    is_source[_truth_values(facts, dataflow)] = True
    is_source[_short_tables(facts)] = True
    is_source[_sparse_tables(facts, dataflow)] = True
    return is_source


def _truth_values(facts: Facts, dataflow: Dataflow) -> list[int]:
    """Return the rows of nodes that turn a reduced value into a truth value."""
    nodes, constants = facts.NodeProto, facts.derive(SmallConstants)
    is_reduction = facts.matching(lambda name: name.startswith("Reduce"), nodes.op_type)
    casts = true_rows(facts.are_among(nodes.op_type, ("Cast",)) & dataflow.reads(is_reduction))
    return [
        row
        for row in casts.tolist()
        if (target := constants.attributes(row).get("to")) is not None and target.i == _BOOL
    ]


def _are_steps(facts: Facts, dataflow: Dataflow) -> Any:
    """Return whether each node is a step: a function such as Sigmoid of data times a large number."""
    op_types = facts.NodeProto.op_type
    is_step, is_division = facts.are_among(op_types, _STEPS), facts.are_among(op_types, ("Div",))
    is_shift = facts.are_among(op_types, _SHIFTS) & dataflow.are_read_by(is_step)
    is_scale = (facts.are_among(op_types, ("Mul",)) | is_division) & dataflow.are_read_by(is_step | is_shift)
    is_steep = np.zeros(len(is_scale), bool)
    for index in true_rows(is_scale[dataflow.inputs.parent] & dataflow.is_constant).tolist():
        node, number = dataflow.inputs.parent[index], abs(dataflow.scalar(index) or 0)
        is_steep[node] |= 0 < number <= 1 / _MIN_STEEPNESS if is_division[node] else number >= _MIN_STEEPNESS
    return is_step & dataflow.reads(is_steep | is_shift & dataflow.reads(is_steep))


def _short_tables(facts: Facts) -> list[int]:
    """Return the rows of LabelEncoders with few keys, which are comparisons with these keys."""
    constants = facts.derive(SmallConstants)
    encoder_rows = []
    for row in true_rows(facts.are_among(facts.NodeProto.op_type, ("LabelEncoder",))).tolist():
        attributes = constants.attributes(row)
        keys = [attribute for name in _KEYS if (attribute := attributes.get(name)) is not None]
        if keys and len(keys[0].strings) + len(keys[0].ints) + len(keys[0].floats) <= _MAX_KEYS:
            encoder_rows.append(row)
    return encoder_rows


def _sparse_tables(facts: Facts, dataflow: Dataflow) -> list[int]:
    """Return the nodes of Gather whose table has one or two nonzero rows: they are comparisons of the index."""
    tensors, inputs, constants = facts.TensorProto, dataflow.inputs, facts.derive(SmallConstants)
    is_data = facts.are_among(facts.NodeProto.op_type, ("Gather",))[inputs.parent] & (inputs.index == 0)
    gather_rows = []
    is_sparse: dict[int, bool] = {}
    bytes_left = MAX_TOTAL_READ_BYTES
    starts, lengths = tensors.span("raw_data")
    for index in true_rows(is_data & (dataflow.tensors >= 0)).tolist():
        row = int(dataflow.tensors[index])
        length = int(lengths[row])
        n_rows = next(iter(constants.dims(row)), 0)
        if row not in is_sparse and _MIN_TABLE_ROWS <= n_rows <= length <= min(_MAX_TABLE_BYTES, bytes_left):
            bytes_left -= length
            data = bytes_at(facts.document, int(starts[row]), int(starts[row]) + length)
            table = np.frombuffer(data[: length // n_rows * n_rows], np.uint8).reshape(n_rows, -1)
            is_sparse[row] = 0 < int(table.any(axis=1).sum()) <= _MAX_USED_ROWS
        if is_sparse.get(row):
            gather_rows.append(int(inputs.parent[index]))
    return gather_rows
