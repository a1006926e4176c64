"""Rules of graphs: names and what they stand for, order, initializers, quantization annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.cycles import cycles
from onnxwire.checker.declared_types import Values, differ
from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.training import said_of_training
from onnxwire.checker.scopes import (
    ALGORITHM,
    INITIALIZER,
    INPUT,
    IS_INITIALIZER,
    IS_INPUT,
    IS_NODE,
    LATER,
    MAIN,
    NESTED,
    NODE,
    NOT_YET,
    NOWHERE,
    OUTER,
    SHADOWS,
    Scopes,
)  # fmt: skip

_QUANTIZATION_KEYS = ("SCALE_TENSOR", "ZERO_POINT_TENSOR")


def is_nested(facts: Facts, graphs: Any) -> Any:
    """Whether each row of GraphProto in a column, -1 for none, is a graph in an attribute."""
    kinds = np.append(facts.derive(Scopes).graph_kind == NESTED, False)
    return kinds[graphs]


def _uses(facts: Facts, meaning: int) -> tuple[Any, Any]:
    """Node inputs, in graphs and not directly in functions, that stand for something: a bool column, their graphs."""
    scopes = facts.derive(Scopes)
    graphs = scopes.node_graph[facts.lists("NodeProto.input").parent]
    return (scopes.uses == meaning) & (graphs >= 0), graphs


def _definitions(facts: Facts, flag: int) -> tuple[Any, Any]:
    """The same for node outputs that are something already."""
    scopes = facts.derive(Scopes)
    graphs = scopes.node_graph[facts.lists("NodeProto.output").parent]
    return (scopes.defined & flag != 0) & (graphs >= 0), graphs


@rule("graph-name-present")
def name_present(facts: Facts) -> Iterator[Finding]:
    """Every graph has a name."""
    graphs = facts.GraphProto
    yield graphs.at(graphs.name == EMPTY, "the graph has no name; give it one")


@rule("graph-name-unique")
def name_unique(facts: Facts) -> Iterator[Finding]:
    """Graph names do not repeat in the model."""
    graphs = facts.GraphProto
    yield graphs.at(
        (graphs.name != EMPTY) & repeats(graphs.name),
        "another graph is named {0!r}, too; rename one of them",
        graphs.texts(graphs.name),
    )


@rule("graph-doc-string-present")
def doc_string_present(facts: Facts) -> Iterator[Finding]:
    """Graphs are documented."""
    graphs = facts.GraphProto
    yield graphs.at(graphs.doc_string == EMPTY, "graph {0!r} has no doc_string; describe it", graphs.texts(graphs.name))


@rule("graph-acyclic")
def acyclic(facts: Facts) -> Iterator[Finding]:
    """No node depends on itself."""
    nodes = facts.NodeProto
    found = {}
    for members in cycles(facts):
        names = [_title(facts, row) for row in members[:4]]
        more = f" and {len(members) - 4:,} more" if len(members) > 4 else ""
        found[members[0]] = f"the nodes {', '.join(names)}{more} depend on each other in a circle; break it"
        if len(members) == 1:
            found[members[0]] = f"node {names[0]} reads what it makes; let it read another value"
    yield nodes.each(found)


def _title(facts: Facts, row: int) -> str:
    nodes = facts.NodeProto
    return repr(facts.text(nodes.name[row])) if nodes.name[row] else f"{facts.path('NodeProto', row)}"


def _order(facts: Facts, nested: bool) -> Finding:
    is_later, graphs = _uses(facts, LATER)
    inputs = facts.lists("NodeProto.input")
    makers = facts.derive(Scopes).makers
    return inputs.at(
        is_later & (is_nested(facts, graphs) == nested),
        "{0!r} is made by {1}, which does not come before this node; sort the nodes",
        inputs.texts(inputs.value),
        lambda row: facts.path("NodeProto", int(makers[row])),
    )


@rule("graph-topological-order")
def topological_order(facts: Facts) -> Iterator[Finding]:
    """A node comes after those whose outputs it reads."""
    yield _order(facts, False)


@rule("subgraph-topological-order")
def subgraph_topological_order(facts: Facts) -> Iterator[Finding]:
    """The same in nested graphs."""
    yield _order(facts, True)


@rule("graph-node-input-defined")
def node_input_defined(facts: Facts) -> Iterator[Finding]:
    """Each node input names a value; of graphs that may not see each other, rules of training speak."""
    is_nowhere, _ = _uses(facts, NOWHERE)
    inputs = facts.lists("NodeProto.input")
    yield inputs.at(
        is_nowhere & ~said_of_training(facts),
        "nothing is named {0!r} here: no input, initializer or node output; add it or correct the name",
        inputs.texts(inputs.value),
    )


@rule("subgraph-capture-visible")
def capture_visible(facts: Facts) -> Iterator[Finding]:
    """A nested graph reads only what stands before the node that owns it."""
    is_not_yet, _ = _uses(facts, NOT_YET)
    inputs = facts.lists("NodeProto.input")
    makers = facts.derive(Scopes).makers
    yield inputs.at(
        is_not_yet,
        "{0!r} is made by {1}, which does not come before the node that owns this graph",
        inputs.texts(inputs.value),
        lambda row: facts.path("NodeProto", int(makers[row])),
    )


@rule("graph-input-name-unique")
def input_name_unique(facts: Facts) -> Iterator[Finding]:
    """Inputs of a graph have different names."""
    infos = facts.ValueInfoProto
    yield infos.at(
        facts.derive(Scopes).inputs & IS_INPUT != 0,
        "another input is named {0!r}, too; rename one of them",
        infos.texts(infos.name),
    )


def _outputs(facts: Facts, nested: bool) -> Any:
    infos = facts.ValueInfoProto
    outputs = facts.derive(Scopes).outputs
    graphs = np.where(facts.derive(Values).is_output, infos.parent, -1)
    # An algorithm and the main graph are one graph.
    is_main_value = (outputs == OUTER) & _is_algorithm(facts, graphs)
    return (outputs >= OUTER) & ~is_main_value & (is_nested(facts, graphs) == nested)


def _is_algorithm(facts: Facts, graphs: Any) -> Any:
    return np.append(facts.derive(Scopes).graph_kind == ALGORITHM, False)[graphs]


@rule("graph-output-defined")
def output_defined(facts: Facts) -> Iterator[Finding]:
    """Each output is a value of the graph."""
    infos = facts.ValueInfoProto
    yield infos.at(
        _outputs(facts, False),
        "output {0!r} is not a value of the graph: let a node make it, or correct the name",
        infos.texts(infos.name),
    )


@rule("subgraph-output-defined-locally")
def subgraph_output_defined_locally(facts: Facts) -> Iterator[Finding]:
    """An output of a nested graph is a value of that graph."""
    infos = facts.ValueInfoProto
    yield infos.at(
        _outputs(facts, True),
        "output {0!r} is not a value of this graph; a value from outside goes through a node, such as Identity, first",
        infos.texts(infos.name),
    )


@rule("graph-output-name-unique")
def output_name_unique(facts: Facts) -> Iterator[Finding]:
    """A value is an output once."""
    infos = facts.ValueInfoProto
    rows = np.flatnonzero(facts.derive(Values).is_output & (infos.name != EMPTY))
    yield infos.at(
        rows[repeats(infos.parent[rows], infos.name[rows])],
        "{0!r} is listed as an output before",
        infos.texts(infos.name),
    )


@rule("node-output-ssa")
def output_ssa(facts: Facts) -> Iterator[Finding]:
    """A name is made by one node of a graph, once."""
    is_again, _ = _definitions(facts, IS_NODE)
    outputs = facts.lists("NodeProto.output")
    yield outputs.at(
        is_again, "{0!r} is made in this graph before; rename one of the outputs", outputs.texts(outputs.value)
    )


@rule("node-output-redefines-input")
def output_redefines_input(facts: Facts) -> Iterator[Finding]:
    """No node makes an input of its graph."""
    is_input, _ = _definitions(facts, IS_INPUT)
    outputs = facts.lists("NodeProto.output")
    yield outputs.at(is_input, "{0!r} is an input of the graph; rename the output", outputs.texts(outputs.value))


@rule("node-output-redefines-initializer")
def output_redefines_initializer(facts: Facts) -> Iterator[Finding]:
    """No node makes an initializer of its graph."""
    is_initializer, _ = _definitions(facts, IS_INITIALIZER)
    outputs = facts.lists("NodeProto.output")
    yield outputs.at(
        is_initializer, "{0!r} is an initializer of the graph; rename the output", outputs.texts(outputs.value)
    )


@rule("subgraph-node-output-no-shadowing")
def output_no_shadowing(facts: Facts) -> Iterator[Finding]:
    """A node in a nested graph makes no name that is visible from outside."""
    shadows, graphs = _definitions(facts, SHADOWS)
    outputs = facts.lists("NodeProto.output")
    yield outputs.at(
        shadows & is_nested(facts, graphs),
        "{0!r} is a value of a graph around this one; rename the output",
        outputs.texts(outputs.value),
    )


@rule("subgraph-input-no-shadowing")
def input_no_shadowing(facts: Facts) -> Iterator[Finding]:
    """An input of a nested graph has no name that is visible from outside."""
    infos = facts.ValueInfoProto
    graphs = np.where(facts.derive(Values).is_input, infos.parent, -1)
    yield infos.at(
        (facts.derive(Scopes).inputs & SHADOWS != 0) & is_nested(facts, graphs),
        "{0!r} is a value of a graph around this one; rename the input",
        infos.texts(infos.name),
    )


@rule("subgraph-initializer-no-shadowing")
def initializer_no_shadowing(facts: Facts) -> Iterator[Finding]:
    """An initializer of a nested graph has no name that is visible from outside."""
    for sheet, names, flags, graphs in _initializers(facts):
        yield sheet.at(
            (flags & SHADOWS != 0) & is_nested(facts, graphs),
            "{0!r} is a value of a graph around this one; rename the initializer",
            sheet.texts(names),
        )


def _initializers(facts: Facts) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Dense and sparse initializers: sheet, ids of names, what the names are already, graphs or -1."""
    scopes, tensors, sparse = facts.derive(Scopes), facts.TensorProto, facts.SparseTensorProto
    yield tensors, tensors.name, scopes.initializers, _graphs(tensors, "GraphProto.initializer")
    yield sparse, _sparse_names(facts), scopes.sparse, _graphs(sparse, "GraphProto.sparse_initializer")


def _graphs(sheet: Any, field: str) -> Any:
    return np.where(sheet.under(field), sheet.parent, -1)


def _sparse_names(facts: Facts) -> Any:
    """A sparse tensor's name is that of its values."""
    return np.append(facts.TensorProto.name, EMPTY)[facts.SparseTensorProto.values]


@rule("initializer-name-present")
def initializer_name_present(facts: Facts) -> Iterator[Finding]:
    """An initializer has a name."""
    tensors = facts.TensorProto
    yield tensors.at(
        tensors.under("GraphProto.initializer") & (tensors.name == EMPTY), "the initializer has no name; give it one"
    )


@rule("initializer-name-unique")
def initializer_name_unique(facts: Facts) -> Iterator[Finding]:
    """Initializers of a graph have different names."""
    tensors = facts.TensorProto
    yield tensors.at(
        facts.derive(Scopes).initializers & IS_INITIALIZER != 0,
        "another initializer is named {0!r}, too; rename one of them",
        tensors.texts(tensors.name),
    )


@rule("sparse-initializer-name-present")
def sparse_initializer_name_present(facts: Facts) -> Iterator[Finding]:
    """The values of a sparse initializer have a name."""
    sparse = facts.SparseTensorProto
    yield sparse.at(
        sparse.under("GraphProto.sparse_initializer") & (_sparse_names(facts) == EMPTY),
        "the sparse initializer has no name; name its values",
    )


@rule("sparse-initializer-name-unique")
def sparse_initializer_name_unique(facts: Facts) -> Iterator[Finding]:
    """Sparse initializers differ from all other initializers of the graph."""
    sparse = facts.SparseTensorProto
    yield sparse.at(
        facts.derive(Scopes).sparse & IS_INITIALIZER != 0,
        "another initializer is named {0!r}, too; rename one of them",
        sparse.texts(_sparse_names(facts)),
    )


@rule("initializer-subset-of-inputs")
def initializer_subset_of_inputs(facts: Facts) -> Iterator[Finding]:
    """Initializers are inputs, too."""
    tensors = facts.TensorProto
    yield tensors.at(
        tensors.under("GraphProto.initializer")
        & (facts.derive(Scopes).initializers & IS_INPUT == 0)
        & (tensors.name != EMPTY),
        f"initializer {{0!r}} is not an input, as IR version {facts.ir_version} asks for; add an input of that name",
        tensors.texts(tensors.name),
    )


@rule("initializer-overridable")
def initializer_overridable(facts: Facts) -> Iterator[Finding]:
    """An initializer that is an input is a default only."""
    for sheet, names, flags, graphs in _initializers(facts):
        yield sheet.at(
            (flags & IS_INPUT != 0) & ~is_nested(facts, graphs),
            "initializer {0!r} is an input, so callers can replace it; if it is a constant, remove the input",
            sheet.texts(names),
        )


def _with_inputs(facts: Facts) -> list[tuple[int, int]]:
    """Dense initializers and the inputs of the same names."""
    tensors = facts.TensorProto
    rows = np.flatnonzero(facts.derive(Scopes).initializers & IS_INPUT)
    inputs = facts.derive(Values).same_inputs(tensors.parent[rows], tensors.name[rows])
    return [(row, other) for row, other in zip(rows.tolist(), inputs.tolist(), strict=True) if other >= 0]


@rule("initializer-input-type-match")
def initializer_input_type_match(facts: Facts) -> Iterator[Finding]:
    """An initializer has the element type of the input of its name."""
    tensors, values = facts.TensorProto, facts.derive(Values)
    found = {}
    for row, other in facts.derive(_with_inputs):
        wanted, there = int(values.elem_type[other]), int(tensors.data_type[row])
        if wanted and there and wanted != there:
            name = facts.text(tensors.name[row])
            found[row] = f"initializer {name!r} has data_type {there}, the input of that name {wanted}; make them agree"
    yield tensors.each(found)


@rule("initializer-input-shape-match")
def initializer_input_shape_match(facts: Facts) -> Iterator[Finding]:
    """An initializer has the shape of the input of its name."""
    tensors, values = facts.TensorProto, facts.derive(Values)
    found = {}
    for row, other in facts.derive(_with_inputs):
        reason = differ(values.tensor_dims(row), values.dims(other))
        if reason:
            name = facts.text(tensors.name[row])
            found[row] = f"initializer {name!r} and the input of that name have {reason}; make them agree"
    yield tensors.each(found)


@rule("subgraph-initializer-not-input")
def subgraph_initializer_not_input(facts: Facts) -> Iterator[Finding]:
    """In a nested graph no initializer is an input."""
    for sheet, names, flags, graphs in _initializers(facts):
        yield sheet.at(
            (flags & IS_INPUT != 0) & is_nested(facts, graphs),
            "{0!r} is an input of the nested graph, too; remove the initializer or the input",
            sheet.texts(names),
        )


@rule("subgraph-initializer-after-actual-inputs")
def subgraph_initializer_after_actual_inputs(facts: Facts) -> Iterator[Finding]:
    """In a nested graph inputs without initializer come first."""
    infos, values = facts.ValueInfoProto, facts.derive(Values)
    rows = np.flatnonzero(values.is_input & is_nested(facts, np.where(values.is_input, infos.parent, -1)))
    is_backed = np.zeros(infos.n, bool)
    is_backed[[other for _, other in facts.derive(_with_inputs)]] = True
    last = -1
    found = {}
    for row in rows.tolist():
        if is_backed[row]:
            last = int(infos.parent[row])
        elif last == infos.parent[row]:
            name = facts.text(infos.name[row])
            found[row] = f"input {name!r} has no initializer and comes after one that has; move it to the front"
    yield infos.each(found)


@rule("graph-value-info-name-unique")
def value_info_name_unique(facts: Facts) -> Iterator[Finding]:
    """value_info describes a value once."""
    infos = facts.ValueInfoProto
    rows = np.flatnonzero(facts.derive(Values).is_info & (infos.name != EMPTY))
    yield infos.at(
        rows[repeats(infos.parent[rows], infos.name[rows])],
        "value_info has {0!r} before; remove one of the entries",
        infos.texts(infos.name),
    )


def _is_of_function(facts: Facts, rows: Any) -> Any:
    """Whether rows of value_info in graphs describe values of the model's functions.

    These have no value_info before IR version 10, so PyTorch's exporter and onnx-ir keep it in the model's own graph,
    under names `domain::function/value`, and read it there.
    """
    infos, functions, values = facts.ValueInfoProto, facts.FunctionProto, facts.derive(Values)
    if not functions.n or (facts.declared_ir_version or 0) >= 10:
        return np.zeros(len(rows), bool)
    is_main = facts.derive(Scopes).graph_kind[values.graph[rows]] == MAIN
    starts = {
        f"{facts.text(domain)}::{facts.text(name)}/"
        for domain, name in zip(functions.domain, functions.name, strict=True)
    }
    return is_main & facts.matching(lambda name: name[: name.find("/") + 1] in starts, infos.name[rows])


@rule("graph-value-info-known-name")
def value_info_known_name(facts: Facts) -> Iterator[Finding]:
    """value_info describes values of its graph."""
    infos, values, named = facts.ValueInfoProto, facts.derive(Values), facts.derive(Scopes).named
    is_main_value = (named == OUTER) & _is_algorithm(facts, values.graph)
    is_value = np.isin(named, (INPUT, INITIALIZER, NODE)) | is_main_value
    rows = np.flatnonzero(values.is_info & (infos.name != EMPTY) & ~is_value)
    yield infos.at(
        rows[~_is_of_function(facts, rows)],
        "value_info has {0!r}, which is not a value of the graph; remove the entry",
        infos.texts(infos.name),
    )


def _described_again(facts: Facts) -> list[tuple[int, int]]:
    """Rows of value_info, and inputs or outputs of the same names."""
    infos, values = facts.ValueInfoProto, facts.derive(Values)
    rows = np.flatnonzero(values.is_info & (infos.name != EMPTY))
    pairs = []
    for others in (np.flatnonzero(values.is_input), np.flatnonzero(values.is_output)):
        is_there = np.zeros(facts.columns.text_count(), bool)
        is_there[infos.name[others]] = True
        some = rows[is_there[infos.name[rows]]]
        if len(some):
            graph_names = (values.graph[others], infos.name[others])
            found = facts.join((values.graph[some], infos.name[some]), graph_names)
            pairs += [(int(row), int(others[i])) for row, i in zip(some, found, strict=True) if i >= 0]
    return pairs


@rule("graph-value-info-not-io")
def value_info_not_io(facts: Facts) -> Iterator[Finding]:
    """value_info is for what is neither input nor output."""
    infos = facts.ValueInfoProto
    yield infos.at(
        {row for row, _ in facts.derive(_described_again)},
        "{0!r} is an input or output, which describes itself; remove the entry of value_info",
        infos.texts(infos.name),
    )


@rule("graph-value-info-contradiction")
def value_info_contradiction(facts: Facts) -> Iterator[Finding]:
    """value_info says of a value what its input, output or initializer says."""
    infos, values, tensors = facts.ValueInfoProto, facts.derive(Values), facts.TensorProto
    found = {}

    def compare(row: int, elem_type: int, dims: Any, what: str) -> None:
        name = facts.text(infos.name[row])
        reason = differ(values.dims(row), dims)
        if elem_type and values.elem_type[row] and elem_type != values.elem_type[row]:
            reason = f"element types {values.elem_type[row]} and {elem_type}"
        if reason:
            found[row] = f"value_info and the {what} {name!r} have {reason}; remove the entry of value_info"

    for row, other in facts.derive(_described_again):
        compare(row, int(values.elem_type[other]), values.dims(other), "input or output")
    rows = np.flatnonzero(values.is_info & (facts.derive(Scopes).named == INITIALIZER))
    others = np.flatnonzero(tensors.under("GraphProto.initializer"))
    if len(rows):
        matches = facts.join((values.graph[rows], infos.name[rows]), (tensors.parent[others], tensors.name[others]))
        for row, i in zip(rows.tolist(), matches.tolist(), strict=True):
            if i >= 0:
                tensor = int(others[i])
                compare(row, int(tensors.data_type[tensor]), values.tensor_dims(tensor), "initializer")
    yield infos.each(found)


@rule("graph-sparse-initializer-before-ir6")
def sparse_initializer_before_ir6(facts: Facts) -> Iterator[Finding]:
    """There are no sparse initializers yet."""
    sparse = facts.SparseTensorProto
    yield sparse.at(
        sparse.under("GraphProto.sparse_initializer"),
        f"sparse initializers need IR version 6, and the model has {facts.ir_version}; raise ir_version",
    )


@rule("graph-quantization-before-ir5")
def quantization_before_ir5(facts: Facts) -> Iterator[Finding]:
    """There are no quantization annotations yet."""
    annotations = facts.TensorAnnotation
    yield annotations.at(
        annotations.rows, f"quantization annotations need IR version 5, and the model has {facts.ir_version}"
    )


def value_names(facts: Facts) -> tuple[Any, Any]:
    """Every value that graphs define: rows of GraphProto, ids of names."""
    infos, values, scopes = facts.ValueInfoProto, facts.derive(Values), facts.derive(Scopes)
    outputs = facts.lists("NodeProto.output")
    graphs = [np.where(values.is_input, infos.parent, -1), scopes.node_graph[outputs.parent]]
    names = [infos.name, outputs.value]
    for _, ids, _, owners in _initializers(facts):
        graphs.append(owners)
        names.append(ids)
    all_graphs, all_names = np.concatenate(graphs), np.concatenate(names)
    is_value = (all_graphs >= 0) & (all_names != EMPTY)
    return all_graphs[is_value], all_names[is_value]


@rule("quant-annotation-tensor-name")
def annotation_tensor_name(facts: Facts) -> Iterator[Finding]:
    """An annotation is of a value of its graph."""
    annotations = facts.TensorAnnotation
    if annotations.n:
        found = facts.join((annotations.parent, annotations.tensor_name), facts.derive(value_names))
        yield annotations.at(
            found < 0,
            "the annotation is of {0!r}, which is not a value of the graph; correct tensor_name",
            annotations.texts(annotations.tensor_name),
        )


@rule("quant-annotation-tensor-unique")
def annotation_tensor_unique(facts: Facts) -> Iterator[Finding]:
    """A value has one annotation."""
    annotations = facts.TensorAnnotation
    yield annotations.at(
        repeats(annotations.parent, annotations.tensor_name) & (annotations.tensor_name != EMPTY),
        "{0!r} has an annotation before; merge them",
        annotations.texts(annotations.tensor_name),
    )


def _quantization_entries(facts: Facts) -> Any:
    return facts.StringStringEntryProto.under("TensorAnnotation.quant_parameter_tensor_names")


@rule("quant-annotation-key-known")
def annotation_key_known(facts: Facts) -> Iterator[Finding]:
    """Keys are of the vocabulary."""
    entries = facts.StringStringEntryProto
    known = [facts.find(key) for key in _QUANTIZATION_KEYS]
    yield entries.at(
        _quantization_entries(facts) & ~np.isin(entries.key, known),
        f"the key {{0!r}} is not one of {' and '.join(_QUANTIZATION_KEYS)}",
        entries.texts(entries.key),
    )


@rule("quant-annotation-key-unique")
def annotation_key_unique(facts: Facts) -> Iterator[Finding]:
    """A key occurs once in an annotation."""
    entries = facts.StringStringEntryProto
    rows = np.flatnonzero(_quantization_entries(facts))
    yield entries.at(
        rows[repeats(entries.parent[rows], entries.key[rows])],
        "the annotation has the key {0!r} before; remove one of the entries",
        entries.texts(entries.key),
    )


@rule("quant-annotation-value-known")
def annotation_value_known(facts: Facts) -> Iterator[Finding]:
    """The tensors that an annotation names exist."""
    entries = facts.StringStringEntryProto
    rows = np.flatnonzero(_quantization_entries(facts))
    if len(rows):
        is_value = np.zeros(facts.columns.text_count(), bool)
        is_value[facts.derive(value_names)[1]] = True
        yield entries.at(
            rows[~is_value[entries.value[rows]]],
            "{0!r} is not a value of the model; correct the name or add the tensor",
            entries.texts(entries.value),
        )
