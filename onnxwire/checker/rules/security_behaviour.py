"""Rules of security: notes on nodes and tensors that may make a model behave differently in use than in a test."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxwire.checker.constant_inputs import TRAINING
from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.security_payloads import Prefixes
from onnxwire.checker.shape_bounds import ShapeBounds
from onnxwire.checker.small_constants import SmallConstants

_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
_TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
# Modes of branches that test for equality, as strings and as numbers.
_EQUALITIES = {b"BRANCH_EQ", b"BRANCH_NEQ", b"BRANCH_MEMBER"}
_EQUALITY_NUMBERS = {4, 5, 6}  # of TreeEnsemble: EQ, NEQ, MEMBER
_UINT8 = 2  # of TensorProto.DataType
# By TensorProto.DataType: the dtype of the bits as integers, and the masks of exponent and mantissa.
_FLOATS = {1: ("<u4", 0x7F800000, 0x7FFFFF), 10: ("<u2", 0x7C00, 0x3FF), 16: ("<u2", 0x7F80, 0x7F)}


@rule("security-behaviour-random", "NodeProto")
def random(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with random outputs."""
    nodes = facts.NodeProto
    is_random = facts.are_among(nodes.op_type, _RANDOM)
    # Dropout has a random output in training mode.
    is_random[list(facts.derive(ShapeBounds).faults.get(TRAINING, ()))] = True
    yield nodes.at(
        is_random, "the output of {op_type!r} may differ in each run, so a test does not show the results of later runs"
    )


@rule("security-behaviour-loop", "NodeProto")
def unbounded_loop(facts: Facts) -> Iterator[Finding]:
    """Yield loops that end only by their condition."""
    yield facts.NodeProto.at(
        facts.derive(ShapeBounds).unbounded_loops,
        "{op_type!r} ends only by its condition, which may never become false; run the model with a time limit",
    )


@rule("security-behaviour-equality", "NodeProto", "AttributeProto")
def tree_equality(facts: Facts) -> Iterator[Finding]:
    """Yield tree ensembles with a branch that tests numbers for equality."""
    nodes, constants = facts.NodeProto, facts.derive(SmallConstants)
    rows = []
    for row in true_rows(facts.are_among(nodes.op_type, _TREES)).tolist():
        modes = constants.attributes(row).get("nodes_modes")
        if modes is None:
            continue
        texts = set(modes.strings)
        numbers = set(modes.t.raw_data) if modes.HasField("t") and modes.t.data_type == _UINT8 else set()
        if texts & _EQUALITIES or numbers & _EQUALITY_NUMBERS:
            rows.append(row)
    yield nodes.at(
        rows,
        "a branch of {op_type!r} tests for equality, as a hidden trigger would; learned trees compare with thresholds",
    )


@rule("security-behaviour-number", "TensorProto")
def unusual_numbers(facts: Facts) -> Iterator[Finding]:
    """Yield tensors of 16- or 32-bit floats whose first elements in raw_data include a NaN, or are all subnormal."""
    tensors, prefixes = facts.TensorProto, facts.derive(Prefixes)
    spans = tensors.span("raw_data")
    kinds: dict[int, str] = {}
    for data_type, (dtype, exponent, mantissa) in _FLOATS.items():
        size = np.dtype(dtype).itemsize
        rows = true_rows((tensors.data_type == data_type) & (spans[1] >= size))
        for batch, data, matrix in prefixes.batches(rows, spans, size):
            bits = matrix.view(dtype)
            has_mantissa = bits & mantissa != 0
            n_subnormal = ((bits & exponent == 0) & has_mantissa).sum(axis=1)
            n_elements = np.array([len(prefix) // size for prefix in data])
            is_subnormal = (n_subnormal == n_elements) & (n_elements > 0)
            kinds |= dict.fromkeys(batch[is_subnormal].tolist(), "only subnormal numbers")
            kinds |= dict.fromkeys(batch[((bits & exponent == exponent) & has_mantissa).any(axis=1)].tolist(), "NaN")
    yield tensors.at(kinds, "tensor {name!r} has {kind} among its first elements", kind=kinds)
