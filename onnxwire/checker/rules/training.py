"""Rules of training: its graphs beside the main one, and what their results are bound to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import Values, differ
from onnxwire.checker.facts import EMPTY, Facts, Finding, Table, repeats
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import ALGORITHM, INITIALIZATION, MAIN, NESTED, NOWHERE, Scopes

_SINCE_IR = 7  # of all rules here
_INITIALIZATION = "TrainingInfoProto.initialization_binding"
_UPDATE = "TrainingInfoProto.update_binding"


class Names:
    """Names of the main graph and of algorithms; take them with `facts.derive(Names)`.

    initializers, inputs, outputs, infos, made: pairs of columns, a row of GraphProto and the id of a name; sparse
    initializers are named by their values. inputs, outputs and infos have `..._rows` of ValueInfoProto beside them.
    main: the row of the main graph, or -1. algorithms, initializations: of each TrainingInfoProto, or -1.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        tensors, sparse, infos = facts.TensorProto, facts.SparseTensorProto, facts.ValueInfoProto
        scopes, values = facts.derive(Scopes), facts.derive(Values)
        main = np.flatnonzero(scopes.graph_kind == MAIN)
        self.main = int(main[0]) if len(main) else -1
        self.algorithms = facts.TrainingInfoProto.algorithm
        self.initializations = facts.TrainingInfoProto.initialization
        self.dense = np.flatnonzero(tensors.under("GraphProto.initializer"))
        self.sparse = np.flatnonzero(sparse.under("GraphProto.sparse_initializer"))
        sparse_names = np.append(tensors.name, EMPTY)[sparse.values[self.sparse]]
        self.initializers = (
            np.concatenate([tensors.parent[self.dense], sparse.parent[self.sparse]]),
            np.concatenate([tensors.name[self.dense], sparse_names]),
        )
        self.input_rows, self.output_rows, self.info_rows = (
            np.flatnonzero(column) for column in (values.is_input, values.is_output, values.is_info)
        )
        self.inputs, self.outputs, self.infos = (
            (infos.parent[rows], infos.name[rows]) for rows in (self.input_rows, self.output_rows, self.info_rows)
        )
        outputs = facts.lists("NodeProto.output")
        graphs = scopes.node_graph[outputs.parent]
        self.made_rows = np.flatnonzero((graphs >= 0) & (outputs.value != EMPTY))
        self.made = graphs[self.made_rows], outputs.value[self.made_rows]

    def of_main(self, *pairs: tuple[Any, Any]) -> Any:
        """Whether each string is a name that the main graph has in one of the pairs of columns."""
        return self._among(np.array([self.main]), pairs)

    def of_algorithms(self, *pairs: tuple[Any, Any]) -> Any:
        """The same of all algorithms."""
        return self._among(self.algorithms, pairs)

    def _among(self, graphs: Any, pairs: tuple[tuple[Any, Any], ...]) -> Any:
        is_wanted = np.zeros(self.facts.GraphProto.n + 1, bool)
        is_wanted[graphs] = True
        is_wanted[-1] = False
        result = np.zeros(self.facts.columns.text_count(), bool)
        for owners, names in pairs:
            result[names[is_wanted[owners]]] = True
        result[EMPTY] = False
        return result


def outermost(facts: Facts) -> Any:
    """Of each node's graph, whether it lies in the main graph, an initialization or an algorithm: its kind.

    NESTED for nodes in functions.
    """
    scopes = facts.derive(Scopes)
    kinds = np.append(scopes.graph_kind, NESTED)
    graphs = facts.GraphProto
    nested = np.flatnonzero(scopes.owner >= 0)
    for depth in np.unique(graphs.depth[nested]).tolist():
        some = nested[graphs.depth[nested] == depth]
        kinds[some] = kinds[scopes.node_graph[scopes.owner[some]]]
    return kinds[scopes.node_graph]


def _strangers(facts: Facts, kind: int, is_known: Any) -> Any:
    """Node inputs that name nothing where they stand, in graphs of a kind, and are names that are known elsewhere."""
    inputs = facts.lists("NodeProto.input")
    rows = np.flatnonzero((facts.derive(Scopes).uses == NOWHERE) & is_known[inputs.value])
    rows = rows[facts.derive(outermost)[inputs.parent[rows]] == kind]
    result = np.zeros(inputs.n, bool)
    result[rows] = True
    return result


def reads_algorithm(facts: Facts) -> Any:
    """Whether each node input is of the main graph, and what it names is defined by an algorithm only."""
    if not facts.TrainingInfoProto.n:
        return np.zeros(facts.lists("NodeProto.input").n, bool)
    names = facts.derive(Names)
    return _strangers(facts, MAIN, names.of_algorithms(names.inputs, names.initializers, names.made))


def reads_main(facts: Facts) -> Any:
    """Whether each node input is of an initialization, and what it names is defined by the main graph only."""
    if not facts.TrainingInfoProto.n:
        return np.zeros(facts.lists("NodeProto.input").n, bool)
    names = facts.derive(Names)
    return _strangers(facts, INITIALIZATION, names.of_main(names.inputs, names.initializers, names.made))


def said_of_training(facts: Facts) -> Any:
    """Whether each node input is one that `training-inference-independent` or `training-graphs-valid` speaks of."""
    if facts.ir_version is None or facts.ir_version < _SINCE_IR:
        return np.zeros(facts.lists("NodeProto.input").n, bool)
    return facts.derive(reads_algorithm) | facts.derive(reads_main)


@rule("training-initialization-present")
def initialization_present(facts: Facts) -> Iterator[Finding]:
    """The values that initialization binds come from a graph."""
    infos = facts.TrainingInfoProto
    yield infos.at(
        (infos.initialization_binding > 0) & (infos.initialization < 0),
        "there are initialization bindings and no initialization graph; add `initialization` or remove the bindings",
    )


@rule("training-initialization-no-inputs")
def initialization_no_inputs(facts: Facts) -> Iterator[Finding]:
    """An initialization graph has no inputs."""
    graphs = facts.GraphProto
    yield graphs.at(
        graphs.under("TrainingInfoProto.initialization") & (graphs.input > 0),
        "the initialization graph has {0} inputs, and nothing gives them values; make them initializers",
        graphs.input,
    )


def _unknown_keys(facts: Facts, field: str) -> Finding:
    """Bindings whose key is not an initializer of the main graph, nor of the algorithm beside them.

    Of training information by itself nothing is said: its main graph is elsewhere.
    """
    entries, names = facts.StringStringEntryProto, facts.derive(Names)
    is_main = names.of_main(names.initializers)
    rows = np.flatnonzero(entries.under(field) & (entries.key != EMPTY) & ~is_main[entries.key])
    rows = rows[: len(rows) if facts.root == "ModelProto" else 0]
    rows = rows[~_has(facts, names.algorithms[entries.parent[rows]], entries.key[rows], names.initializers)]
    return entries.at(
        rows,
        "the key {0!r} is not an initializer of the main graph or the algorithm beside it; correct the name or add it",
        entries.texts(entries.key),
    )


def _has(facts: Facts, graphs: Any, names: Any, pairs: tuple[Any, Any]) -> Any:
    """Whether the pairs of columns have each name for its graph, which is -1 where there is none."""
    return (graphs >= 0) & (facts.join((np.maximum(graphs, 0), names), pairs) >= 0)


@rule("training-initialization-key-initializer")
def initialization_key_initializer(facts: Facts) -> Iterator[Finding]:
    """The target of an initialization is an initializer."""
    yield _unknown_keys(facts, _INITIALIZATION)


@rule("training-initialization-value-output")
def initialization_value_output(facts: Facts) -> Iterator[Finding]:
    """Initialization values are outputs of their graph; without one, `training-initialization-present` speaks."""
    entries, names = facts.StringStringEntryProto, facts.derive(Names)
    rows = np.flatnonzero(entries.under(_INITIALIZATION) & (entries.value != EMPTY))
    graphs = names.initializations[entries.parent[rows]]
    yield entries.at(
        rows[(graphs >= 0) & ~_has(facts, graphs, entries.value[rows], names.outputs)],
        "{0!r} is not an output of the initialization graph; correct the name or add the output",
        entries.texts(entries.value),
    )


@rule("training-initialization-key-unique")
def initialization_key_unique(facts: Facts) -> Iterator[Finding]:
    """An initializer is initialized once in an entry."""
    entries = facts.StringStringEntryProto
    rows = np.flatnonzero(entries.under(_INITIALIZATION) & (entries.key != EMPTY))
    yield entries.at(
        rows[repeats(entries.parent[rows], entries.key[rows])],
        "{0!r} is bound in this entry before; keep one of the bindings",
        entries.texts(entries.key),
    )


@rule("training-update-key-initializer")
def update_key_initializer(facts: Facts) -> Iterator[Finding]:
    """The target of an update is an initializer."""
    yield _unknown_keys(facts, _UPDATE)


def _unknown_updates(facts: Facts) -> Any:
    """Update bindings whose value is an output neither of the main graph nor of the algorithm beside them.

    Of training information by itself nothing is said: its main graph is elsewhere.
    """
    entries, names = facts.StringStringEntryProto, facts.derive(Names)
    is_main = names.of_main(names.outputs)
    rows = np.flatnonzero(entries.under(_UPDATE) & (entries.value != EMPTY) & ~is_main[entries.value])
    rows = rows[: len(rows) if facts.root == "ModelProto" else 0]
    return rows[~_has(facts, names.algorithms[entries.parent[rows]], entries.value[rows], names.outputs)]


@rule("training-update-value-output")
def update_value_output(facts: Facts) -> Iterator[Finding]:
    """Update values are outputs of the algorithm or the main graph.

    Where there is no algorithm, `training-algorithm-present` speaks.
    """
    entries, rows = facts.StringStringEntryProto, facts.derive(_unknown_updates)
    yield entries.at(
        rows[facts.TrainingInfoProto.algorithm[entries.parent[rows]] >= 0],
        "{0!r} is not an output of the algorithm or of the main graph; correct the name or add the output",
        entries.texts(entries.value),
    )


@rule("training-update-key-unique")
def update_key_unique(facts: Facts) -> Iterator[Finding]:
    """An initializer is updated once in all entries together."""
    entries = facts.StringStringEntryProto
    rows = np.flatnonzero(entries.under(_UPDATE) & (entries.key != EMPTY))
    yield entries.at(
        rows[repeats(entries.key[rows])],
        "{0!r} is updated by another binding before; keep one of them",
        entries.texts(entries.key),
    )


@rule("training-algorithm-present")
def algorithm_present(facts: Facts) -> Iterator[Finding]:
    """The new values of initializers come from an algorithm, if not from the main graph."""
    infos, entries = facts.TrainingInfoProto, facts.StringStringEntryProto
    lacks = np.zeros(infos.n, bool)
    lacks[entries.parent[facts.derive(_unknown_updates)]] = True
    yield infos.at(
        lacks & (infos.algorithm < 0),
        "update bindings name values that the main graph does not give, and there is no algorithm; add one",
    )


@rule("training-algorithm-combined-valid")
def algorithm_combined_valid(facts: Facts) -> Iterator[Finding]:
    """Main graph and algorithm are one graph together: names of the algorithm are others than those of the main graph.

    What its nodes read, and the order of them, the rules of graphs see. As in one graph, an initializer may be the
    default of an input.
    """
    if not facts.TrainingInfoProto.n:
        return
    names, infos = facts.derive(Names), facts.ValueInfoProto
    kinds = np.append(facts.derive(Scopes).graph_kind, NESTED)
    text = "{0!r} is {1} of the main graph, with which the algorithm is one graph; rename one of them"

    def found(table: Table, rows: Any, pair: tuple[Any, Any], ids: Any, what: str, *others: tuple[Any, Any]) -> Finding:
        again = (kinds[pair[0]] == ALGORITHM) & names.of_main(*others)[pair[1]]
        return table.at(rows[again], text.replace("{1}", what), table.texts(ids))

    outputs, tensors, sparse = facts.lists("NodeProto.output"), facts.TensorProto, facts.SparseTensorProto
    dense = len(names.dense)
    yield found(infos, names.input_rows, names.inputs, infos.name, "an input or node output", names.inputs, names.made)
    for table, rows, part, ids in (
        (tensors, names.dense, slice(dense), tensors.name),
        (sparse, names.sparse, slice(dense, None), np.append(tensors.name, EMPTY)[sparse.values]),
    ):
        pair = names.initializers[0][part], names.initializers[1][part]
        yield found(table, rows, pair, ids, "an initializer or node output", names.initializers, names.made)
    every = names.inputs, names.initializers, names.made
    yield found(outputs, names.made_rows, names.made, outputs.value, "a value", *every)
    yield found(infos, names.info_rows, names.infos, infos.name, "in value_info", names.infos)


@rule("training-inference-independent")
def inference_independent(facts: Facts) -> Iterator[Finding]:
    """The main graph reads nothing that an algorithm defines."""
    inputs = facts.lists("NodeProto.input")
    yield inputs.at(
        facts.derive(reads_algorithm),
        "{0!r} is of a training algorithm, and the main graph runs without; let it read a value of its own",
        inputs.texts(inputs.value),
    )


@rule("training-graphs-valid")
def graphs_valid(facts: Facts) -> Iterator[Finding]:
    """Only the algorithm reads values of the main graph. The rules of graphs see training graphs, and say the rest."""
    inputs = facts.lists("NodeProto.input")
    yield inputs.at(
        facts.derive(reads_main),
        "{0!r} is of the main graph, which an initialization graph does not see; copy the value into it",
        inputs.texts(inputs.value),
    )


@rule("training-binding-nonempty")
def binding_nonempty(facts: Facts) -> Iterator[Finding]:
    """Bindings have a key and a value."""
    entries = facts.StringStringEntryProto
    is_binding = entries.under(_INITIALIZATION, _UPDATE)
    yield entries.at(is_binding & (entries.key == EMPTY), "the binding has no key; name the initializer to set")
    yield entries.at(
        is_binding & (entries.key != EMPTY) & (entries.value == EMPTY),
        "the binding of {0!r} has no value; name the output to set it from",
        entries.texts(entries.key),
    )


@rule("training-binding-type-match")
def binding_type_match(facts: Facts) -> Iterator[Finding]:
    """The output that an initializer is set from has its element type and shape, where both are known.

    Sparse initializers are left out.
    """
    entries, names, values = facts.StringStringEntryProto, facts.derive(Names), facts.derive(Values)
    tensors, infos = facts.TensorProto, facts.ValueInfoProto
    rows = np.flatnonzero(entries.under(_INITIALIZATION, _UPDATE))
    if not len(rows):
        return
    dense = tensors.parent[names.dense], tensors.name[names.dense]
    main = np.full(len(rows), names.main)
    algorithms = names.algorithms[entries.parent[rows]]
    is_update = entries.under(_UPDATE)[rows]
    givers = np.where(is_update, algorithms, names.initializations[entries.parent[rows]])
    targets = _first(facts, (main, algorithms), entries.key[rows], dense)
    sources = _first(facts, (givers, np.where(is_update, main, -1)), entries.value[rows], names.outputs)
    found = {}
    for row, target, source in zip(rows.tolist(), targets.tolist(), sources.tolist(), strict=True):
        if target < 0 or source < 0:
            continue
        tensor, info = int(names.dense[target]), int(names.output_rows[source])
        wanted, given = int(tensors.data_type[tensor]), int(values.elem_type[info])
        reason = differ(values.tensor_dims(tensor), values.dims(info))
        if wanted and given and wanted != given:
            reason = f"element types {wanted} and {given}"
        if reason:
            key, value = facts.text(tensors.name[tensor]), facts.text(infos.name[info])
            found[row] = (
                f"initializer {key!r} and output {value!r}, which it is set from, have {reason}; make them agree"
            )
    yield entries.each(found)


def _first(facts: Facts, graphs: tuple[Any, Any], names: Any, pairs: tuple[Any, Any]) -> Any:
    """The rows of names in pairs of columns, for the first of two graphs that has them, or -1."""
    found = [
        np.where(rows >= 0, facts.join((np.maximum(rows, 0), names), pairs), -1).astype(np.int64) for rows in graphs
    ]
    return np.where(found[0] >= 0, found[0], found[1])
