"""Rules of security: notes on nodes by which a model may behave differently after a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.constant_inputs import TRAINING
from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.security_payloads import Prefixes
from onnxwire.checker.scopes import Scopes
from onnxwire.checker.shape_bounds import ShapeBounds
from onnxwire.checker.small_constants import SmallConstants

_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
_COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
_SELECTIONS = ("If", "Where", "Loop")
_INDEXED = ("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "Compress")
_GATES, _OFFSETS = ("Relu", "Sign", "HardSigmoid", "Clip"), ("Sub", "Abs")
_COMBINATIONS = (
    "And", "Or", "Not", "Xor", "Cast", "ReduceMin", "ReduceMax", "ReduceSum", "ReduceProd", "ReduceMean", "Reshape",
    "Squeeze", "Unsqueeze", "Expand", "Identity", "NonZero", "Transpose", "Flatten", "Min", "Max", "Clip", "Mul", "Sub",
    "Sum",
)  # fmt: skip
_MAX_COMBINATIONS = 8
_TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
_TESTS = ("IsNaN", "IsInf", "RegexFullMatch", *_TREES)  # operators whose result another one selects by
_EQUALITIES = {b"BRANCH_EQ", b"BRANCH_NEQ", b"BRANCH_MEMBER"}
_EQUALITY_NUMBERS = {4, 5, 6}  # of TreeEnsemble: EQ, NEQ, MEMBER
_UINT8, _STRING, _BOOL = 2, 8, 9  # of TensorProto.DataType
# By TensorProto.DataType: the type of the bits, and the masks of exponent and mantissa.
_FLOATS = {1: ("<u4", 0x7F800000, 0x7FFFFF), 10: ("<u2", 0x7C00, 0x3FF), 16: ("<u2", 0x7F80, 0x7F)}


@rule("security-behaviour-random", "NodeProto")
def random(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with random outputs."""
    nodes = facts.NodeProto
    is_random = facts.are_among(nodes.op_type, _RANDOM)
    is_random[list(facts.derive(ShapeBounds).faults.get(TRAINING, ()))] = True
    yield nodes.at(
        is_random, "the output of {op_type!r} differs in each run, so a test does not show the results of later runs"
    )


@rule("security-behaviour-loop", "NodeProto")
def unbounded_loop(facts: Facts) -> Iterator[Finding]:
    """Yield loops that only their condition ends."""
    yield facts.NodeProto.at(
        facts.derive(ShapeBounds).unbounded,
        "only the condition of {op_type!r} ends it, which depends on data; run the model with a limit of time",
    )


@rule("security-behaviour-equality", "NodeProto", "AttributeProto")
def tree_equality(facts: Facts) -> Iterator[Finding]:
    """Yield tree ensembles with a branch that tests numbers for equality."""
    nodes, constants = facts.NodeProto, facts.derive(SmallConstants)
    found = []
    for row in true_rows(facts.are_among(nodes.op_type, _TREES)).tolist():
        modes = constants.attributes(row).get("nodes_modes")
        if modes is None:
            continue
        texts = set(modes.strings)
        numbers = set(modes.t.raw_data) if modes.HasField("t") and modes.t.data_type == _UINT8 else set()
        if texts & _EQUALITIES or numbers & _EQUALITY_NUMBERS:
            found.append(row)
    yield nodes.at(
        found,
        "a branch of {op_type!r} tests for one value, as a hidden trigger would; learned trees compare with thresholds",
    )


@rule("security-behaviour-trigger", "NodeProto")
def trigger(facts: Facts) -> Iterator[Finding]:
    """Yield selections between values by a comparison with a constant."""
    nodes, scopes = facts.NodeProto, facts.derive(Scopes)
    inputs = facts.lists("NodeProto.input")
    is_comparison = np.append(facts.are_among(nodes.op_type, _COMPARISONS), False)
    is_constant_node = np.append(facts.are_among(nodes.op_type, ("Constant",)), False)
    definitions = scopes.definitions
    n_outputs = facts.lists("NodeProto.output").n
    is_constant = (definitions >= n_outputs + facts.ValueInfoProto.n) | is_constant_node[scopes.makers]
    # How a value depends on a comparison: as a truth value or number that other operators combine.
    depends = np.zeros(nodes.n + 1, bool)
    depends[inputs.parent[is_constant & is_comparison[inputs.parent]]] = True
    depends[:-1] |= facts.are_among(nodes.op_type, _TESTS)
    depends[_truth_values(facts, inputs, scopes)] = True
    gates = np.append(facts.are_among(nodes.op_type, _GATES), False)
    depends[:-1] |= gates[:-1] & _read_from(inputs, scopes, np.append(facts.are_among(nodes.op_type, _OFFSETS), False))
    passes = np.append(facts.are_among(nodes.op_type, _COMBINATIONS), False)
    for _ in range(_MAX_COMBINATIONS):
        more = np.append(passes[:-1] & ~depends[:-1] & _read_from(inputs, scopes, depends), False)
        if not more.any():
            break
        depends |= more
    is_selection = facts.are_among(nodes.op_type, _SELECTIONS)
    selecting = (inputs.index == 0) & is_selection[inputs.parent]
    by_index = facts.are_among(nodes.op_type, _INDEXED)
    selecting |= (inputs.index == 1) & by_index[inputs.parent]
    scaling = facts.are_among(nodes.op_type, ("Mul", "MatMul"))
    selecting |= scaling[inputs.parent]
    found = np.zeros(nodes.n, bool)
    found[inputs.parent[selecting & depends[scopes.makers]]] = True
    # A comparison with a stored text is one with a password, or a category.
    n_before = n_outputs + facts.ValueInfoProto.n
    texts = true_rows(facts.TensorProto.data_type == _STRING) + n_before if facts.TensorProto.n else np.zeros(0, int)
    with_text = np.zeros(nodes.n, bool)
    with_text[inputs.parent[np.isin(definitions, texts)]] = True
    yield nodes.at(
        with_text & is_comparison[:-1] & ~found,
        "{op_type!r} compares with a stored text, which may be a password; look at it on the map",
    )
    yield nodes.at(
        found & ~depends[:-1] | (found & is_selection),
        "{op_type!r} selects by a comparison with a constant, as a hidden trigger would; look at it on the map",
    )


def _truth_values(facts: Facts, inputs: Any, scopes: Scopes) -> list[int]:
    """Return the rows of nodes that turn a reduced value into a truth value."""
    nodes, constants = facts.NodeProto, facts.derive(SmallConstants)
    is_reduction = np.append(facts.matching(lambda name: name.startswith("Reduce"), nodes.op_type), False)
    casts = true_rows(facts.are_among(nodes.op_type, ("Cast",)) & _read_from(inputs, scopes, is_reduction))
    return [
        row
        for row in casts.tolist()
        if (target := constants.attributes(row).get("to")) is not None and target.i == _BOOL
    ]


def _read_from(inputs: Any, scopes: Scopes, is_source: Any) -> Any:
    """Return whether each node reads a value of one of some nodes. is_source: per node, and False at the end."""
    result = np.zeros(len(is_source) - 1, bool)
    result[inputs.parent[is_source[scopes.makers]]] = True
    return result


@rule("security-behaviour-number", "TensorProto")
def unusual_numbers(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of floats with NaN, or with subnormal numbers only, among their first elements."""
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    spans = tensors.span("raw_data")
    found: dict[int, str] = {}
    for data_type, (dtype, exponent, mantissa) in _FLOATS.items():
        size = np.dtype(dtype).itemsize
        rows = true_rows((tensors.data_type == data_type) & (spans[1] >= size))
        for batch, data, matrix in prefixes.batches(rows, spans, size):
            bits = matrix.view(dtype)
            has_mantissa = bits & mantissa != 0
            n_subnormal = ((bits & exponent == 0) & has_mantissa).sum(axis=1)
            n_elements = np.array([len(prefix) // size for prefix in data])
            is_subnormal = (n_subnormal == n_elements) & (n_elements > 0)
            found |= dict.fromkeys(batch[is_subnormal].tolist(), "only subnormal numbers")
            found |= dict.fromkeys(batch[((bits & exponent == exponent) & has_mantissa).any(axis=1)].tolist(), "NaN")
    yield tensors.at(found, "tensor {name!r} has {kind} among its first elements", kind=found)
