"""Rules of training: its graphs and the bindings of their results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import DeclaredTypes, describe_contradiction
from onnxwire.checker.facts import EMPTY, Facts, Finding, Sheet, Table, repeats, true_rows, unique
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import ALGORITHM, INITIALIZATION, MAIN, NESTED, NOWHERE, Scopes

_SINCE_IR = 7  # the first IR version with TrainingInfoProto
_INITIALIZATION = "TrainingInfoProto.initialization_binding"
_UPDATE = "TrainingInfoProto.update_binding"
_UNKNOWN_KEY = "the key {key!r} is not an initializer of the main graph or of the algorithm; correct the name or add it"

RULES = {
    "TrainingInfoProto": {
        "training-algorithm-present": (
            lambda info: _lacks_algorithm(info),
            "update bindings name values that are not outputs of the main graph, and there is no algorithm; add one",
        ),
        "training-initialization-present": (
            lambda info: (info.initialization_binding > 0) & (info.initialization < 0),
            "there are initialization bindings and no initialization graph; add `initialization` or remove the "
            "bindings",
        ),
    },
    ("GraphProto", "TrainingInfoProto"): {
        "training-initialization-no-inputs": (
            lambda graph: graph.under("TrainingInfoProto.initialization") & (graph.input > 0),
            "an initialization graph has no inputs, and this one has {input}; make each an initializer",
        ),
    },
    ("StringStringEntryProto", "TrainingInfoProto"): {
        "training-initialization-key-initializer": (
            lambda entry: _unknown_keys(entry, _INITIALIZATION),
            _UNKNOWN_KEY,
        ),
        "training-update-key-initializer": (lambda entry: _unknown_keys(entry, _UPDATE), _UNKNOWN_KEY),
        # `training-initialization-present` reports that there is no graph.
        "training-initialization-value-output": (
            lambda entry: _unknown_outputs_of_initializations(entry),
            "{value!r} is not an output of the initialization graph; correct the name or add the output",
        ),
        "training-initialization-key-unique": (
            lambda entry: repeats(entry.parent, entry.key, where=entry.under(_INITIALIZATION) & (entry.key != EMPTY)),
            "{key!r} is bound more than once in this TrainingInfoProto; keep one of the bindings",
        ),
        # Compares the bindings of all TrainingInfoProtos.
        "training-update-key-unique": (
            lambda entry: repeats(entry.key, where=entry.under(_UPDATE) & (entry.key != EMPTY)),
            "{key!r} is updated by more than one binding; keep one of them",
        ),
        "training-binding-nonempty": [
            (
                lambda entry: entry.under(_INITIALIZATION, _UPDATE) & (entry.key == EMPTY),
                "the binding has no key; name the initializer to set",
            ),
            (
                lambda entry: entry.under(_INITIALIZATION, _UPDATE) & (entry.key != EMPTY) & (entry.value == EMPTY),
                "the binding of {key!r} has no value; name the output from which the initializer is set",
            ),
        ],
        # `training-algorithm-present` reports that there is no algorithm.
        "training-update-value-output": (
            lambda entry: _unknown_outputs_of_algorithms(entry),
            "{value!r} is not an output of the algorithm or of the main graph; correct the name or add the output",
        ),
    },
    ("NodeProto.input", "TrainingInfoProto"): {
        "training-inference-independent": (
            lambda input: input.derive(reads_algorithm),
            "{value!r} belongs to a training algorithm, but the main graph must run without the algorithm; use a "
            "value of the main graph",
        ),
        "training-graphs-valid": (
            lambda input: input.derive(reads_main),
            "{value!r} belongs to the main graph, which an initialization graph does not see; copy the value into it",
        ),
    },
}


class Names:
    """Names in all graphs. `facts.derive(Names)` returns the object.

    initializers, inputs, outputs, infos (of value_info), node_outputs: pairs of columns, a row of GraphProto and the id
    of a name; the name of a sparse initializer is that of its values. input_rows, output_rows, info_rows: the
    corresponding rows of ValueInfoProto. node_output_rows: the corresponding elements of NodeProto.output. dense_rows,
    sparse_rows: the rows of the initializers in TensorProto and in SparseTensorProto.
    main: the row of the main graph, or -1. algorithms, initializations: the row of the graph of each TrainingInfoProto,
    or -1.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        tensors, sparse, infos = facts.TensorProto, facts.SparseTensorProto, facts.ValueInfoProto
        scopes, declared = facts.derive(Scopes), facts.derive(DeclaredTypes)
        main = true_rows(scopes.graph_kind == MAIN)
        self.main = int(main[0]) if len(main) else -1
        self.algorithms = facts.TrainingInfoProto.algorithm
        self.initializations = facts.TrainingInfoProto.initialization
        self.dense_rows = true_rows(tensors.under("GraphProto.initializer"))
        self.sparse_rows = true_rows(sparse.under("GraphProto.sparse_initializer"))
        sparse_names = np.append(tensors.name, EMPTY)[sparse.values[self.sparse_rows]]
        self.initializers = (
            np.concatenate([tensors.parent[self.dense_rows], sparse.parent[self.sparse_rows]]),
            np.concatenate([tensors.name[self.dense_rows], sparse_names]),
        )
        self.input_rows, self.output_rows, self.info_rows = (
            true_rows(column) for column in (declared.is_input, declared.is_output, declared.is_info)
        )
        self.inputs, self.outputs, self.infos = (
            (infos.parent[rows], infos.name[rows]) for rows in (self.input_rows, self.output_rows, self.info_rows)
        )
        outputs = facts.lists("NodeProto.output")
        graphs = scopes.node_graph[outputs.parent]
        self.node_output_rows = true_rows((graphs >= 0) & (outputs.value != EMPTY))
        self.node_outputs = graphs[self.node_output_rows], outputs.value[self.node_output_rows]

    def of_main(self, *pairs: tuple[Any, Any]) -> Any:
        """Return whether each string, by id, is a name of the main graph in one of the pairs of columns."""
        return self._among(np.array([self.main]), pairs)

    def of_algorithms(self, *pairs: tuple[Any, Any]) -> Any:
        """Return whether each string, by id, is a name of any algorithm in one of the pairs of columns."""
        return self._among(self.algorithms, pairs)

    def _among(self, graphs: Any, pairs: tuple[tuple[Any, Any], ...]) -> Any:
        """Return whether each string, by id, is a name of one of the graphs in one of the pairs of columns."""
        is_selected = np.zeros(self.facts.GraphProto.n + 1, bool)
        is_selected[graphs] = True
        is_selected[-1] = False
        result = np.zeros(self.facts.columns.text_count(), bool)
        for owners, names in pairs:
            result[names[is_selected[owners]]] = True
        result[EMPTY] = False
        return result


def outermost_kinds(facts: Facts) -> Any:
    """Return the kind of the outermost graph of each node: MAIN, INITIALIZATION or ALGORITHM; NESTED in functions."""
    scopes = facts.derive(Scopes)
    kinds = np.append(scopes.graph_kind, NESTED)
    graphs = facts.GraphProto
    nested = true_rows(scopes.owner >= 0)
    for depth in unique(graphs.depth[nested]).tolist():
        rows_at_depth = nested[graphs.depth[nested] == depth]
        kinds[rows_at_depth] = kinds[scopes.node_graph[scopes.owner[rows_at_depth]]]
    return kinds[scopes.node_graph]


def _undefined_inputs(facts: Facts, kind: int, is_known: Any) -> Any:
    """Return whether each node input in graphs of a kind has a name that only another graph defines.

    kind: the kind of the outermost graph. is_known: whether another graph defines each string, by id.
    """
    inputs = facts.lists("NodeProto.input")
    rows = true_rows((facts.derive(Scopes).uses == NOWHERE) & is_known[inputs.value])
    rows = rows[facts.derive(outermost_kinds)[inputs.parent[rows]] == kind]
    is_undefined = np.zeros(inputs.n, bool)
    is_undefined[rows] = True
    return is_undefined


def reads_algorithm(facts: Facts) -> Any:
    """Return whether each node input is in the main graph, and its name is defined only in an algorithm."""
    if not facts.TrainingInfoProto.n:
        return np.zeros(facts.lists("NodeProto.input").n, bool)
    names = facts.derive(Names)
    return _undefined_inputs(facts, MAIN, names.of_algorithms(names.inputs, names.initializers, names.node_outputs))


def reads_main(facts: Facts) -> Any:
    """Return whether each node input is in an initialization, and its name is defined only in the main graph."""
    if not facts.TrainingInfoProto.n:
        return np.zeros(facts.lists("NodeProto.input").n, bool)
    names = facts.derive(Names)
    return _undefined_inputs(facts, INITIALIZATION, names.of_main(names.inputs, names.initializers, names.node_outputs))


def is_reported_by_training(facts: Facts) -> Any:
    """Return whether `training-inference-independent` or `training-graphs-valid` reports each node input."""
    if facts.ir_version is None or facts.ir_version < _SINCE_IR or not facts.TrainingInfoProto.n:
        return np.zeros(facts.lists("NodeProto.input").n, bool)
    return facts.derive(reads_algorithm) | facts.derive(reads_main)


def _unknown_keys(entries: Sheet, field: str) -> Any:
    """Return the bindings whose key no initializer of the main graph or of their TrainingInfoProto's algorithm has."""
    return _unknown_bindings(entries, field, entries.key, entries.derive(Names).initializers)


def _unknown_bindings(entries: Sheet, field: str, texts: Any, defined_names: tuple[Any, Any]) -> Any:
    """Return the bindings whose text is unknown in the main graph and in the algorithm of their TrainingInfoProto.

    texts: a column of the bindings. defined_names: pairs of graph and name. Returns no rows for standalone training
    information, whose main graph is unknown.
    """
    facts, names = entries.facts, entries.derive(Names)
    rows = true_rows(entries.under(field) & (texts != EMPTY))
    rows = rows[~names.of_main(defined_names)[texts[rows]]]
    rows = rows[: len(rows) if facts.root == "ModelProto" else 0]
    return rows[~_contain(facts, names.algorithms[entries.parent[rows]], texts[rows], defined_names)]


def _contain(facts: Facts, graphs: Any, names: Any, pairs: tuple[Any, Any]) -> Any:
    """Return whether the pairs of columns contain each pair of graph and name; graphs: -1 for none."""
    return (graphs >= 0) & (facts.join((np.maximum(graphs, 0), names), pairs) >= 0)


def _unknown_updates(facts: Facts) -> Any:
    """Return the update bindings whose value is no output of the main graph or of their algorithm."""
    entries = facts.StringStringEntryProto
    return _unknown_bindings(entries, _UPDATE, entries.value, facts.derive(Names).outputs)


def _unknown_outputs_of_algorithms(entries: Sheet) -> Any:
    """Return the update bindings with an unknown value, if there is an algorithm; another rule reports its absence."""
    rows = entries.derive(_unknown_updates)
    return rows[entries.facts.TrainingInfoProto.algorithm[entries.parent[rows]] >= 0]


def _lacks_algorithm(infos: Sheet) -> Any:
    """Return whether each TrainingInfoProto has update bindings that need an algorithm, but has no algorithm."""
    needs_algorithm = np.zeros(infos.n, bool)
    needs_algorithm[infos.facts.StringStringEntryProto.parent[infos.derive(_unknown_updates)]] = True
    return needs_algorithm & (infos.algorithm < 0)


def _unknown_outputs_of_initializations(entries: Sheet) -> Any:
    """Return the initialization bindings whose value is no output of the initialization graph, where there is one."""
    names = entries.derive(Names)
    rows = true_rows(entries.under(_INITIALIZATION) & (entries.value != EMPTY))
    graphs = names.initializations[entries.parent[rows]]
    return rows[(graphs >= 0) & ~_contain(entries.facts, graphs, entries.value[rows], names.outputs)]


@rule("training-algorithm-combined-valid", "TrainingInfoProto")
def algorithm_combined_valid(facts: Facts) -> Iterator[Finding]:
    """Yield names of an algorithm that are also names of the main graph, since the two share one namespace.

    Rules of graphs check the inputs and the order of the algorithm's nodes. As in any graph, an initializer may be the
    default of an input.
    """
    names, infos = facts.derive(Names), facts.ValueInfoProto
    kinds = np.append(facts.derive(Scopes).graph_kind, NESTED)

    def report(
        table: Table, rows: Any, pair: tuple[Any, Any], ids: Any, description: str, *other_names: tuple[Any, Any]
    ) -> Finding:
        """Return a finding about names of algorithms that are also among other names of the main graph.

        rows, pair: the rows of the table, each with its graph and name. ids: the names of all rows of the table.
        """
        is_repeated = (kinds[pair[0]] == ALGORITHM) & names.of_main(*other_names)[pair[1]]
        message = (
            f"{{name!r}} is also {description} of the main graph, whose namespace the algorithm shares; rename one of "
            "them"
        )
        return table.at(rows[is_repeated], message, name=table.texts(ids))

    outputs, tensors, sparse = facts.lists("NodeProto.output"), facts.TensorProto, facts.SparseTensorProto
    n_dense = len(names.dense_rows)
    yield report(
        infos, names.input_rows, names.inputs, infos.name, "an input or node output", names.inputs, names.node_outputs
    )
    for table, rows, part, ids in (
        (tensors, names.dense_rows, slice(n_dense), tensors.name),
        (sparse, names.sparse_rows, slice(n_dense, None), np.append(tensors.name, EMPTY)[sparse.values]),
    ):
        pair = names.initializers[0][part], names.initializers[1][part]
        yield report(table, rows, pair, ids, "an initializer or node output", names.initializers, names.node_outputs)
    all_names = names.inputs, names.initializers, names.node_outputs
    yield report(outputs, names.node_output_rows, names.node_outputs, outputs.value, "a value", *all_names)
    yield report(infos, names.info_rows, names.infos, infos.name, "in value_info", names.infos)


@rule("training-binding-type-match", "TrainingInfoProto")
def binding_type_match(facts: Facts) -> Iterator[Finding]:
    """Yield bindings of an output to an initializer of another element type or shape, where both are known.

    Sparse initializers are skipped.
    """
    entries, names, declared = facts.StringStringEntryProto, facts.derive(Names), facts.derive(DeclaredTypes)
    tensors, infos = facts.TensorProto, facts.ValueInfoProto
    rows = true_rows(entries.under(_INITIALIZATION, _UPDATE))
    if not len(rows):
        return
    dense_initializers = tensors.parent[names.dense_rows], tensors.name[names.dense_rows]
    main = np.full(len(rows), names.main)
    algorithms = names.algorithms[entries.parent[rows]]
    is_update = entries.under(_UPDATE)[rows]
    source_graphs = np.where(is_update, algorithms, names.initializations[entries.parent[rows]])
    targets = _rows_in_first_graph(facts, (main, algorithms), entries.key[rows], dense_initializers)
    sources = _rows_in_first_graph(
        facts, (source_graphs, np.where(is_update, main, -1)), entries.value[rows], names.outputs
    )
    messages = {}
    for row, target, source in zip(rows.tolist(), targets.tolist(), sources.tolist(), strict=True):
        if target < 0 or source < 0:
            continue
        tensor, info = int(names.dense_rows[target]), int(names.output_rows[source])
        target_type, source_type = int(tensors.data_type[tensor]), int(declared.elem_type[info])
        reason = describe_contradiction(declared.tensor_dims(tensor), declared.dims(info))
        if target_type and source_type and target_type != source_type:
            reason = f"element types {target_type} and {source_type}"
        if reason:
            key, value = facts.text(tensors.name[tensor]), facts.text(infos.name[info])
            messages[row] = f"initializer {key!r} and its source, output {value!r}, have {reason}; make them agree"
    yield entries.each(messages)


def _rows_in_first_graph(facts: Facts, graphs: tuple[Any, Any], names: Any, pairs: tuple[Any, Any]) -> Any:
    """Return the position of each name in the pairs of columns, for the first of two graphs that has it, or -1."""
    positions, second_positions = (
        np.where(rows >= 0, facts.join((np.maximum(rows, 0), names), pairs), -1).astype(np.int64) for rows in graphs
    )
    return np.where(positions >= 0, positions, second_positions)
