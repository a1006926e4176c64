"""Rules of security: attributes with which kernels divide by zero, read or write out of bounds, or do not end.

`attribute_limits.tsv` has a row for each limit that needs no code of its own: domain, operators, kind of the limit,
attributes, and a bound or the attributes that define the bound. An attribute that is absent or empty has its default
and breaks no limit of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onnxwire.checker.attribute_numbers import AttributeNumbers
from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.registry import read_table, rule
from onnxwire.checker.rules.opset_import import normalized_domains
from onnxwire.checker.small_constants import SmallConstants
from onnxwire.index.components import cyclic_components

_MAX_FEATURE_INDEX = (1 << 31) - 1
_MAX_TREE_LEVELS = 1000
_MAX_CACHED_NODES = 4096  # maximum number of nodes whose faults are cached for equal nodes
# Attributes that state a number of objects.
_COUNT_ATTRIBUTES = ("n_targets", "targets", "n_supports", "num_scan_inputs")
_REMEDY = "; do not run the model"


class AttributeLimits:
    """The nodes that break limits of attributes. `facts.derive(AttributeLimits)` returns the object.

    ranges: texts about values that are not allowed. lengths: texts about lists of wrong lengths or sums, and about
    attributes that are absent or exclude one another. indices: texts about references to objects that do not exist.
    tree_faults: texts about the branches of trees. All are dicts by the row of the node.
    """

    def __init__(self, facts: Facts) -> None:
        self.ranges: dict[int, str] = {}
        self.lengths: dict[int, str] = {}
        self.indices: dict[int, str] = {}
        self.tree_faults: dict[int, str] = {}
        nodes = facts.NodeProto
        limits: dict[tuple[int, int], list[list[str]]] = {}
        for domain, operators, *limit in read_table("attribute_limits.tsv"):
            for operator in operators.split():
                limits.setdefault((facts.find(domain), facts.find(operator)), []).append(limit)
        operator_ids = np.array([operator for _, operator in limits if operator >= 0], np.int64)
        rows = np.flatnonzero((nodes.attribute > 0) & np.isin(nodes.op_type, operator_ids))
        domains = normalized_domains(facts, nodes.domain)[rows].tolist()
        op_types, inputs = nodes.op_type[rows].tolist(), nodes.input[rows].tolist()
        attributes, constants = facts.derive(AttributeNumbers), facts.derive(SmallConstants)
        fault_dicts = self.ranges, self.lengths, self.indices, self.tree_faults
        cached_faults: dict[Any, list[str | None]] = {}  # the faults of a node in these dicts
        for node, domain, operator, n_inputs in zip(rows.tolist(), domains, op_types, inputs, strict=True):
            operator_limits = limits.get((domain, operator))
            if operator_limits is None:
                continue
            attribute_bytes = constants.attribute_bytes(node)
            key = domain, operator, n_inputs, attribute_bytes
            faults = cached_faults.get(key) if attribute_bytes is not None else None
            if faults is None:
                operator_name = facts.text(operator)
                test_attributes, test = _OPERATOR_TESTS.get(operator_name, ("", None))
                names = test_attributes.split() + [
                    name for _, names, bound in operator_limits for name in f"{names} {bound}".split()
                ]
                numbers = attributes.arrays_of(node, set(names))
                for limit in operator_limits if numbers else ():
                    self._test(node, limit, numbers, n_inputs)
                if numbers and test is not None and (fault := test(numbers)):
                    self.lengths.setdefault(node, fault)
                if numbers and operator_name.startswith("TreeEnsemble"):
                    self._test_tree(node, numbers)
                if attribute_bytes is not None and len(cached_faults) < _MAX_CACHED_NODES:
                    cached_faults[key] = [texts.get(node) for texts in fault_dicts]
            else:
                for texts, cached_fault in zip(fault_dicts, faults, strict=True):
                    if cached_fault is not None:
                        texts[node] = cached_fault

    def _test(self, node: int, limit: list[str], numbers: dict[str, Any], n_inputs: int) -> None:
        """Record the fault of a node that breaks a limit. limit: kind, attributes and bound of a row of the table.

        Kinds of limits of values: `range`; `not-nan`; `distinct`; `inputs`: at most the number of the node's inputs;
        `index`: below the number of objects that the bound describes; `sum`: the sum is at most that number.
        Kinds of limits of lengths: `equal`: nonempty lists are equally long; `equal-or-one`: the same, except lists of
        one value; `count`: the bound; `number`: the number of objects that the bound describes; `multiple`: a multiple
        of that number; `classes`: at least one less than that number. `one-of`: at most one of the attributes is
        present.
        """
        kind, names, bound = limit
        present_arrays = {name: numbers[name] for name in names.split() if name in numbers}
        bound_name = next((name for name in bound.split() if name in numbers), "")
        bound_array = numbers.get(bound_name)
        # The number of objects that the bound describes, or -1.
        size = -1 if bound_array is None else int(bound_array[0]) if bound in _COUNT_ATTRIBUTES else len(bound_array)
        if kind in ("equal", "equal-or-one"):
            min_length = 1 if kind == "equal" else 2
            lengths = {name: len(values) for name, values in present_arrays.items() if len(values) >= min_length}
            if len(set(lengths.values())) > 1:
                text = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
                self.lengths.setdefault(node, f"attributes that describe the same objects differ in length: {text}")
            return
        if kind == "one-of":
            if len(present_arrays) > 1:
                self.lengths.setdefault(
                    node, f"attributes {' and '.join(map(repr, present_arrays))} exclude one another"
                )
            return
        for name, values in present_arrays.items():
            n = len(values)
            if kind == "not-nan":
                if values.dtype.kind == "f" and np.isnan(values).any():
                    self.ranges.setdefault(node, f"attribute {name!r} has NaN")
            elif kind == "range":
                min_value, max_value = map(int, bound.split())
                invalid_values = values[(values < min_value) | (values > max_value)]
                if len(invalid_values):
                    self.ranges.setdefault(
                        node,
                        f"attribute {name!r} has the value {invalid_values[0]:,}, but only values from {min_value:,} "
                        f"to {max_value:,} are allowed",
                    )
            elif kind == "distinct" and len(np.unique(values)) != n:
                self.ranges.setdefault(node, f"attribute {name!r} repeats a value")
            elif kind == "inputs" and not 0 <= values[0] <= n_inputs:
                self.ranges.setdefault(
                    node, f"attribute {name!r} is {values[0]:,}, but the number of inputs is {n_inputs}"
                )
            elif kind == "index" and size >= 0 and len(invalid_values := values[(values < 0) | (values >= size)]):
                self.indices.setdefault(
                    node,
                    f"attribute {name!r} refers to object {invalid_values[0]:,}, but the number of objects is {size:,}",
                )
            elif kind == "sum" and bound_array is not None and (total := sum(values.tolist())) > size:
                self.lengths.setdefault(node, f"the sum of attribute {name!r}, {total:,}, does not fit {bound_name!r}")
            elif (
                (kind == "multiple" and size > 0 and n % size)
                or (kind == "classes" and n < size - 1)
                or (kind == "count" and n != int(bound))
                or (kind == "number" and n != size)
            ):
                expectation = f"is not {bound}" if kind == "count" else f"does not fit {bound_name or bound!r}"
                self.lengths.setdefault(node, f"the length of attribute {name!r}, {n:,}, {expectation}")

    def _test_tree(self, node: int, numbers: dict[str, Any]) -> None:
        """Test that branches of trees lead to existing nodes and leaves, and not back to a node above them.

        The two branches of a node must not lead to the same node. The number of levels is limited to _MAX_TREE_LEVELS.
        If nodes have ids (`nodes_nodeids`), the features of nodes and the nodes of targets and classes are tested, too.
        """
        if node in self.lengths:
            return
        names = ("nodes_truenodeids", "nodes_falsenodeids")
        if not all(name in numbers for name in names):
            if "nodes_modes" in numbers and len(numbers["nodes_modes"]) > 1:
                missing_name = next(name for name in names if name not in numbers)
                self.lengths.setdefault(node, f"attribute {missing_name!r} is missing, and the tree has branches")
            return
        if "nodes_trueleafs" in numbers and "nodes_falseleafs" in numbers:
            n, n_leaves = len(numbers[names[0]]), len(numbers.get("leaf_targetids", ()))
            starts, ends = [], []
            for name, leaves in zip(names, ("nodes_trueleafs", "nodes_falseleafs"), strict=True):
                children, is_leaf = numbers[name], numbers[leaves] != 0
                invalid_values = children[(children < 0) | (children >= np.where(is_leaf, n_leaves, n))]
                if len(invalid_values):
                    self.indices.setdefault(
                        node,
                        f"attribute {name!r} refers to the node or leaf {invalid_values[0]:,}, which does not exist",
                    )
                    return
                starts.append(np.flatnonzero(~is_leaf))
                ends.append(children[~is_leaf])
        elif all(name in numbers for name in ("nodes_treeids", "nodes_nodeids", "nodes_modes")):
            tree_ids, node_ids = numbers["nodes_treeids"], numbers["nodes_nodeids"]
            is_branch = numbers["nodes_modes"] != 0
            features = numbers.get("nodes_featureids", np.zeros(0, np.int64))
            invalid_values = features[is_branch[: len(features)] & ((features < 0) | (features > _MAX_FEATURE_INDEX))]
            if len(invalid_values):
                self.indices.setdefault(
                    node, f"attribute 'nodes_featureids' refers to the invalid feature {invalid_values[0]:,}"
                )
            trees = tree_ids[is_branch]
            starts, ends = [], []
            for name in names:
                children = _positions(tree_ids, node_ids, trees, numbers[name][is_branch])
                if (children < 0).any():
                    invalid_values = numbers[name][is_branch][children < 0]
                    self.indices.setdefault(
                        node, f"attribute {name!r} refers to node {invalid_values[0]:,}, which does not exist"
                    )
                    return
                starts.append(np.flatnonzero(is_branch))
                ends.append(children)
            for prefix in ("target", "class"):
                treeids, nodeids = numbers.get(f"{prefix}_treeids"), numbers.get(f"{prefix}_nodeids")
                if treeids is None or nodeids is None:
                    continue
                if (_positions(tree_ids, node_ids, treeids, nodeids) < 0).any():
                    self.indices.setdefault(node, f"attribute '{prefix}_nodeids' refers to a node that does not exist")
        else:
            return
        parents, children = np.concatenate(starts), np.concatenate(ends)
        if (children <= parents).any() and cyclic_components(parents, children):
            self.tree_faults.setdefault(node, "a branch of a tree leads back to a node above it")
        elif len(np.unique(parents * (int(children.max(initial=0)) + 1) + children)) < len(children):
            self.tree_faults.setdefault(
                node, "both branches of a node lead to the same node, which a loader may copy at each level"
            )
        elif (depth := _depth(parents, children)) > _MAX_TREE_LEVELS:
            self.tree_faults.setdefault(node, f"a tree has more than {depth - 1:,} levels")


def _depth(parents: Any, children: Any) -> int:
    """Return the number of levels of a forest, counted up to one more than the limit."""
    n = int(max(parents.max(initial=-1), children.max(initial=-1))) + 1
    parent_of = np.full(n, -1)
    parent_of[children] = parents
    level_nodes = np.arange(n)
    levels = 0
    while len(level_nodes) and levels <= _MAX_TREE_LEVELS:
        level_nodes = parent_of[level_nodes]
        level_nodes = np.unique(level_nodes[level_nodes >= 0])
        levels += 1
    return levels


def _test_svm_classifier(numbers: dict[str, Any]) -> str:
    """Test the lengths of the lists of SVMClassifier, and that prob_a and prob_b are both present or both absent."""
    labels = max(len(numbers.get(name, ())) for name in ("classlabels_ints", "classlabels_strings"))
    vectors = int(numbers["vectors_per_class"].sum()) if "vectors_per_class" in numbers else 0
    if labels < 2 or vectors <= 0:
        return ""
    for name, size in (("coefficients", (labels - 1) * vectors), ("rho", labels * (labels - 1) // 2)):
        if len(numbers.get(name, ())) < size:
            return f"attribute {name!r} has length {len(numbers.get(name, ())):,}, but needs length {size:,}"
    if ("prob_a" in numbers) != ("prob_b" in numbers):
        return "of the attributes 'prob_a' and 'prob_b', one is missing"
    return ""


def _test_svm_regressor(numbers: dict[str, Any]) -> str:
    """Test that SVMRegressor has rho if it has coefficients."""
    return "" if "rho" in numbers or "coefficients" not in numbers else "attribute 'rho' is missing"


def _test_ngrams(numbers: dict[str, Any]) -> str:
    """Test that TfIdfVectorizer has an index for each n-gram, and that the n-gram lengths fit `ngram_counts`."""
    counts = numbers.get("ngram_counts")
    pool = max(len(numbers.get(name, ())) for name in ("pool_int64s", "pool_strings"))
    min_length, max_length = (int(numbers.get(f"{name}_gram_length", [1])[0]) for name in ("min", "max"))
    if counts is None or not pool:
        return ""
    if max_length > len(counts) or min_length > max_length:
        return (
            f"the n-gram lengths {min_length:,} to {max_length:,} do not fit 'ngram_counts' of length {len(counts):,}"
        )
    sizes = np.diff(np.append(counts, pool))
    n_grams = int((sizes // np.arange(1, len(sizes) + 1)).sum()) if (sizes >= 0).all() else 0
    n_indexes = len(numbers.get("ngram_indexes", ()))
    text = f"attribute 'ngram_indexes' has length {n_indexes:,}, but the number of n-grams is {n_grams:,}"
    return text if n_indexes < n_grams else ""


def _activation_test(per_direction: int) -> Callable[[dict[str, Any]], str]:
    """Return the test of the list of activations of RNN, GRU or LSTM. per_direction: the number for one direction."""

    def test(numbers: dict[str, Any]) -> str:
        n = len(numbers.get("activations", ()))
        if n and n not in (per_direction, 2 * per_direction):
            return f"attribute 'activations' has length {n:,}, but each direction needs {per_direction:,}"
        return ""

    return test


# By operator: the attributes that a test needs, and the test, which returns a fault or "".
_OPERATOR_TESTS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "SVMClassifier": (
        "classlabels_ints classlabels_strings vectors_per_class coefficients rho prob_a prob_b",
        _test_svm_classifier,
    ),
    "SVMRegressor": ("coefficients rho", _test_svm_regressor),
    "TfIdfVectorizer": (
        "ngram_counts ngram_indexes pool_int64s pool_strings min_gram_length max_gram_length",
        _test_ngrams,
    ),
    "RNN": ("activations", _activation_test(1)),
    "GRU": ("activations", _activation_test(2)),
    "LSTM": ("activations", _activation_test(3)),
}


def _positions(trees: Any, ids: Any, wanted_trees: Any, wanted_ids: Any) -> Any:
    """Return the position of each wanted pair (tree, id) in the columns `trees` and `ids`; -1 where there is none."""
    _, tree_numbers = np.unique(np.concatenate([trees, wanted_trees]), return_inverse=True)
    _, id_numbers = np.unique(np.concatenate([ids, wanted_ids]), return_inverse=True)
    all_keys = tree_numbers * (int(id_numbers.max(initial=0)) + 1) + id_numbers
    pair_keys, wanted_keys = all_keys[: len(trees)], all_keys[len(trees) :]
    if not len(pair_keys):
        return np.full(len(wanted_keys), -1)
    order = np.argsort(pair_keys, kind="stable")
    candidates = order[np.minimum(np.searchsorted(pair_keys[order], wanted_keys), len(pair_keys) - 1)]
    return np.where(pair_keys[candidates] == wanted_keys, candidates, -1)


@rule("security-attribute-range", "NodeProto", "AttributeProto")
def out_of_range(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with an attribute whose value their kernel does not support."""
    yield _report(facts, facts.derive(AttributeLimits).ranges)


@rule("security-attribute-length", "NodeProto", "AttributeProto")
def length(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with lists of wrong lengths or sums, or with attributes that are absent or exclude one another."""
    yield _report(facts, facts.derive(AttributeLimits).lengths)


@rule("security-attribute-index", "NodeProto", "AttributeProto")
def attribute_index(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with references to objects that do not exist."""
    yield _report(facts, facts.derive(AttributeLimits).indices)


@rule("security-attribute-cycle", "NodeProto", "AttributeProto")
def cycle(facts: Facts) -> Iterator[Finding]:
    """Yield tree ensembles whose loading or evaluation does not end, or takes too many steps."""
    yield _report(facts, facts.derive(AttributeLimits).tree_faults)


def _report(facts: Facts, faults: dict[int, str]) -> Finding:
    """Return a finding about nodes; faults: the fault by the row of the node."""
    return facts.NodeProto.each({row: fault + _REMEDY for row, fault in faults.items()})
