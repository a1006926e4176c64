"""Rules of graphs: names, definitions of values, value_info, node order, initializers, quantization annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import DeclaredTypes, describe_contradiction
from onnxwire.checker.facts import EMPTY, Facts, Finding, List, is_one_of, repeats, true_rows
from onnxwire.checker.node_cycles import find_cycles
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.training import is_reported_by_training
from onnxwire.checker.scopes import (
    INITIALIZER,
    INPUT,
    IS_INITIALIZER,
    IS_INPUT,
    IS_NODE,
    MAIN,
    NODE,
    NOWHERE,
    OUTER,
    PRODUCED_AFTER_OWNER,
    PRODUCED_LATER,
    SHADOWS,
    Scopes,
)  # fmt: skip

_QUANTIZATION_KEYS = ("SCALE_TENSOR", "ZERO_POINT_TENSOR")
_UNSORTED = "{value!r} is produced by {producer}, which does not come before this node; sort the nodes"
_PRODUCER = {"producer": lambda input: producer_paths(input)}
_SHADOWS_OUTER = "{name!r} is a value of an enclosing graph; rename the initializer"
_OVERRIDABLE = "initializer {name!r} is an input, so callers can replace it; if it is a constant, remove the input"
_IS_NESTED_INPUT = "{name!r} is also an input of the nested graph; remove the initializer or the input"
_SPARSE_NAME = {"name": lambda sparse: sparse.texts(sparse.derive(sparse_names))}

RULES = {
    "GraphProto": {
        "graph-name-present": (lambda graph: graph.name == EMPTY, "the graph has no name; give it one"),
        "graph-name-unique": (
            lambda graph: (graph.name != EMPTY) & repeats(graph.name),
            "another graph has the same name, {name!r}; rename one of them",
        ),
        "graph-doc-string-present": (
            lambda graph: graph.doc_string == EMPTY,
            "graph {name!r} has no doc_string; describe it",
        ),
    },
    "NodeProto.input": {
        # Rules of training report names that are defined only in a graph that is not visible here.
        "graph-node-input-defined": (
            lambda input: (
                _has_use(input, NOWHERE) and _refers_to(input, NOWHERE) & ~is_reported_by_training(input.facts)
            ),
            "no input, initializer or node output is named {value!r} here; add it or correct the name",
        ),
        "graph-topological-order": (
            lambda input: _has_use(input, PRODUCED_LATER) and _refers_to(input, PRODUCED_LATER) & ~_is_in_nested(input),
            _UNSORTED,
            _PRODUCER,
        ),
        "subgraph-topological-order": (
            lambda input: _has_use(input, PRODUCED_LATER) and _refers_to(input, PRODUCED_LATER) & _is_in_nested(input),
            _UNSORTED,
            _PRODUCER,
        ),
        "subgraph-capture-visible": (
            lambda input: _has_use(input, PRODUCED_AFTER_OWNER) and _refers_to(input, PRODUCED_AFTER_OWNER),
            "{value!r} is produced by {producer}, which does not come before the node that owns this graph",
            _PRODUCER,
        ),
    },
    "NodeProto.output": {
        "node-output-ssa": (
            lambda output: _is_defined_as(output, IS_NODE),
            "another node output of this graph has the same name, {value!r}; rename one of them",
        ),
        "node-output-redefines-input": (
            lambda output: _is_defined_as(output, IS_INPUT),
            "{value!r} is an input of the graph; rename the output",
        ),
        "node-output-redefines-initializer": (
            lambda output: _is_defined_as(output, IS_INITIALIZER),
            "{value!r} is an initializer of the graph; rename the output",
        ),
        "subgraph-node-output-no-shadowing": (
            lambda output: _is_in_nested(output) & _is_defined_as(output, SHADOWS),
            "{value!r} is a value of an enclosing graph; rename the output",
        ),
    },
    "ValueInfoProto": {
        "graph-input-name-unique": (
            lambda info: info.derive(Scopes).graph_input_flags & IS_INPUT != 0,
            "another input has the same name, {name!r}; rename one of them",
        ),
        "graph-output-defined": (
            lambda info: _is_undefined_output(info) & ~_is_nested_element(info, "GraphProto.output"),
            "output {name!r} is not a value of the graph; add a node that produces it, or correct the name",
        ),
        "subgraph-output-defined-locally": (
            lambda info: _is_undefined_output(info) & _is_nested_element(info, "GraphProto.output"),
            "output {name!r} is not a value of this graph; pass an outer value through a node such as Identity",
        ),
        "graph-output-name-unique": (
            lambda info: repeats(info.parent, info.name, where=info.under("GraphProto.output") & (info.name != EMPTY)),
            "{name!r} is listed as an output more than once",
        ),
        "subgraph-input-no-shadowing": (
            lambda info: (
                (info.derive(Scopes).graph_input_flags & SHADOWS != 0) & _is_nested_element(info, "GraphProto.input")
            ),
            "{name!r} is a value of an enclosing graph; rename the input",
        ),
        "graph-value-info-name-unique": (
            lambda info: repeats(
                info.parent, info.name, where=info.under("GraphProto.value_info") & (info.name != EMPTY)
            ),
            "value_info has {name!r} more than once; keep one of the entries",
        ),
        "graph-value-info-known-name": (
            lambda info: _unknown_value_infos(info.facts),
            "value_info has {name!r}, which is not a value of the graph; remove the entry",
        ),
        "graph-value-info-not-io": (
            lambda info: {row for row, _ in info.derive(_value_infos_of_io)},
            "{name!r} is an input or output, which has its own type; remove the entry of value_info",
        ),
    },
    "TensorProto": {
        "initializer-name-present": (
            lambda tensor: tensor.under("GraphProto.initializer") & (tensor.name == EMPTY),
            "the initializer has no name; give it one",
        ),
        "initializer-name-unique": (
            lambda tensor: tensor.derive(Scopes).initializer_flags & IS_INITIALIZER != 0,
            "another initializer has the same name, {name!r}; rename one of them",
        ),
        "initializer-subset-of-inputs": (
            lambda tensor: (
                tensor.under("GraphProto.initializer")
                & (tensor.derive(Scopes).initializer_flags & IS_INPUT == 0)
                & (tensor.name != EMPTY)
            ),
            "initializer {name!r} is not an input, as IR version {facts.ir_version} requires; "
            "add an input of that name",
        ),
        "subgraph-initializer-no-shadowing": (
            lambda tensor: _is_initializer_defined_as(tensor, SHADOWS, nested=True),
            _SHADOWS_OUTER,
        ),
        "initializer-overridable": (
            lambda tensor: _is_initializer_defined_as(tensor, IS_INPUT, nested=False),
            _OVERRIDABLE,
        ),
        "subgraph-initializer-not-input": (
            lambda tensor: _is_initializer_defined_as(tensor, IS_INPUT, nested=True),
            _IS_NESTED_INPUT,
        ),
    },
    "SparseTensorProto": {
        "sparse-initializer-name-present": (
            lambda sparse: sparse.under("GraphProto.sparse_initializer") & (sparse.derive(sparse_names) == EMPTY),
            "the sparse initializer has no name; set the name of its `values`",
        ),
        "sparse-initializer-name-unique": (
            lambda sparse: sparse.derive(Scopes).sparse_initializer_flags & IS_INITIALIZER != 0,
            "another initializer has the same name, {name!r}; rename one of them",
            _SPARSE_NAME,
        ),
        "subgraph-initializer-no-shadowing": (
            lambda sparse: _is_initializer_defined_as(sparse, SHADOWS, nested=True),
            _SHADOWS_OUTER,
            _SPARSE_NAME,
        ),
        "initializer-overridable": (
            lambda sparse: _is_initializer_defined_as(sparse, IS_INPUT, nested=False),
            _OVERRIDABLE,
            _SPARSE_NAME,
        ),
        "subgraph-initializer-not-input": (
            lambda sparse: _is_initializer_defined_as(sparse, IS_INPUT, nested=True),
            _IS_NESTED_INPUT,
            _SPARSE_NAME,
        ),
        "graph-sparse-initializer-before-ir6": (
            lambda sparse: sparse.under("GraphProto.sparse_initializer"),
            "sparse initializers need IR version 6, but the IR version is {facts.ir_version}; raise ir_version",
        ),
    },
    "TensorAnnotation": {
        "graph-quantization-before-ir5": (
            lambda annotation: True,
            "quantization annotations need IR version 5, but the IR version is {facts.ir_version}",
        ),
        "quant-annotation-tensor-name": (
            lambda annotation: (
                annotation.facts.join((annotation.parent, annotation.tensor_name), annotation.derive(_value_names)) < 0
            ),
            "the annotation names {tensor_name!r}, which is not a value of the graph; correct tensor_name",
        ),
        "quant-annotation-tensor-unique": (
            lambda annotation: repeats(annotation.parent, annotation.tensor_name) & (annotation.tensor_name != EMPTY),
            "{tensor_name!r} already has an annotation; merge the two",
        ),
    },
    "StringStringEntryProto": {
        "quant-annotation-key-known": (
            lambda entry: _is_quantization_entry(entry) & ~entry.facts.are_among(entry.key, _QUANTIZATION_KEYS),
            f"the key {{key!r}} is not one of {' and '.join(_QUANTIZATION_KEYS)}",
        ),
        "quant-annotation-key-unique": (
            lambda entry: repeats(entry.parent, entry.key, where=_is_quantization_entry(entry)),
            "the annotation has the key {key!r} more than once; keep one of the entries",
        ),
        "quant-annotation-value-known": (
            lambda entry: _is_quantization_entry(entry) & ~entry.derive(_is_value_name)[entry.value],
            "{value!r} is not a value of the model; correct the name or add the tensor",
        ),
    },
}


def is_nested(facts: Facts, graphs: Any) -> Any:
    """Return whether each row of GraphProto in a column (-1 for none) is a graph in an attribute."""
    return facts.derive(Scopes).is_nested[graphs]


def _graphs_of(elements: List) -> Any:
    """Return the graph that has the node of each input or output, -1 if the node is not directly in a graph."""
    return elements.derive(Scopes).node_graph[elements.parent]


def producer_paths(inputs: List) -> Any:
    """Return the paths of the nodes that produce node inputs, as a function of the row."""
    producers = inputs.derive(Scopes).producers
    return lambda row: inputs.facts.path("NodeProto", int(producers[row]))


def _is_in_nested(elements: List) -> Any:
    """Return whether the node of each input or output is directly in a nested graph."""
    return is_nested(elements.facts, _graphs_of(elements))


def _is_nested_element(sheet: Any, field: str) -> Any:
    """Return whether each message is an element of a field of a nested graph."""
    return is_nested(sheet.facts, sheet.parent_under(field))


def _has_use(inputs: List, meaning: int) -> bool:
    """Return whether any node input has the given meaning: a constant of scopes.py, such as NOWHERE."""
    scopes: Scopes = inputs.derive(Scopes)
    return scopes.has_use(meaning)


def _refers_to(inputs: List, meaning: int) -> Any:
    """Return whether each node input has the given meaning: a constant of scopes.py, such as NOWHERE.

    False for nodes directly in a function.
    """
    scopes = inputs.derive(Scopes)
    return (scopes.uses == meaning) & (_graphs_of(inputs) >= 0)


def _is_defined_as(outputs: List, flag: int) -> Any:
    """Return whether each node output has a flag of scopes.py, such as IS_NODE: its name is also defined elsewhere.

    False for nodes directly in a function.
    """
    scopes = outputs.derive(Scopes)
    return bool(scopes.all_node_output_flags & flag) and (scopes.node_output_flags & flag != 0) & (
        _graphs_of(outputs) >= 0
    )


def _is_initializer_defined_as(sheet: Any, flag: int, nested: bool) -> Any:
    """Return whether each initializer has a flag of scopes.py, such as IS_INPUT: its name is also defined elsewhere.

    nested: True to test only initializers of nested graphs, False to test only those of other graphs.
    """
    is_dense = sheet.type_name == "TensorProto"
    scopes = sheet.derive(Scopes)
    is_defined = (scopes.initializer_flags if is_dense else scopes.sparse_initializer_flags) & flag != 0
    field = "GraphProto.initializer" if is_dense else "GraphProto.sparse_initializer"
    return is_defined & (_is_nested_element(sheet, field) == nested) if is_defined.any() else is_defined


def _is_undefined_output(infos: Any) -> Any:
    """Return whether each ValueInfoProto is a graph output that is not a value of the graph."""
    meanings = infos.derive(Scopes).output_meanings
    # A training algorithm and the main graph share one namespace.
    is_main_value = (meanings == OUTER) & _is_algorithm(infos.facts, infos.parent_under("GraphProto.output"))
    return (meanings >= OUTER) & ~is_main_value


def _is_algorithm(facts: Facts, graphs: Any) -> Any:
    """Return whether each graph is a training algorithm."""
    return facts.derive(Scopes).is_algorithm[graphs]


def sparse_names(facts: Facts) -> Any:
    """Return the name of each SparseTensorProto, which is the name of its values."""
    return np.append(facts.TensorProto.name, EMPTY)[facts.SparseTensorProto.values]


def _is_quantization_entry(entries: Any) -> Any:
    """Return whether each entry is in a quantization annotation."""
    return entries.under("TensorAnnotation.quant_parameter_tensor_names")


def _is_value_name(facts: Facts) -> Any:
    """Return whether each string, by id, is the name of a value of any graph; False if there are no annotations."""
    result = np.zeros(facts.columns.text_count(), bool)
    if facts.TensorAnnotation.n:
        result[facts.derive(_value_names)[1]] = True
    return result


@rule("graph-acyclic", "NodeProto")
def acyclic(facts: Facts) -> Iterator[Finding]:
    """Yield the first node of each set of nodes that depend on each other, and nodes that read their own outputs."""
    nodes = facts.NodeProto
    messages = {}
    for members in find_cycles(facts):
        names = [_title(facts, row) for row in members[:4]]
        rest_of_list = f" and {len(members) - 4:,} more" if len(members) > 4 else ""
        messages[members[0]] = f"the nodes {', '.join(names)}{rest_of_list} depend on each other in a cycle; break it"
        if len(members) == 1:
            messages[members[0]] = f"node {names[0]} reads its own output; change the input"
    yield nodes.each(messages)


def _title(facts: Facts, row: int) -> str:
    """Return the quoted name of a node, or its path if it has no name."""
    nodes = facts.NodeProto
    return repr(facts.text(nodes.name[row])) if nodes.name[row] else f"{facts.path('NodeProto', row)}"


def _initializers_with_inputs(facts: Facts) -> list[tuple[int, int]]:
    """Return the rows of dense initializers that are also inputs, each with the row of the input in ValueInfoProto."""
    tensors = facts.TensorProto
    rows = true_rows(facts.derive(Scopes).initializer_flags & IS_INPUT)
    inputs = facts.derive(DeclaredTypes).find_inputs(tensors.parent[rows], tensors.name[rows])
    return [(row, input_row) for row, input_row in zip(rows.tolist(), inputs.tolist(), strict=True) if input_row >= 0]


@rule("initializer-input-type-match", "TensorProto", "ValueInfoProto")
def initializer_input_type_match(facts: Facts) -> Iterator[Finding]:
    """Yield initializers whose element type differs from that of the input of the same name."""
    tensors, declared = facts.TensorProto, facts.derive(DeclaredTypes)
    messages = {}
    for row, input_row in facts.derive(_initializers_with_inputs):
        expected, actual = int(declared.elem_type[input_row]), int(tensors.data_type[row])
        if expected and actual and expected != actual:
            name = facts.text(tensors.name[row])
            messages[row] = (
                f"initializer {name!r} has data_type {actual}, but the input of that name has elem_type {expected}; "
                "make them agree"
            )
    yield tensors.each(messages)


@rule("initializer-input-shape-match", "TensorProto", "ValueInfoProto")
def initializer_input_shape_match(facts: Facts) -> Iterator[Finding]:
    """Yield initializers whose shape contradicts that of the input of the same name."""
    tensors, declared = facts.TensorProto, facts.derive(DeclaredTypes)
    messages = {}
    for row, input_row in facts.derive(_initializers_with_inputs):
        reason = describe_contradiction(declared.tensor_dims(row), declared.dims(input_row))
        if reason:
            name = facts.text(tensors.name[row])
            messages[row] = f"initializer {name!r} and the input of that name have {reason}; make them agree"
    yield tensors.each(messages)


@rule("subgraph-initializer-after-actual-inputs", "ValueInfoProto", "TensorProto")
def subgraph_initializer_after_actual_inputs(facts: Facts) -> Iterator[Finding]:
    """Yield inputs of nested graphs that have no initializer and come after an input that has one."""
    infos = facts.ValueInfoProto
    has_initializer = np.zeros(infos.n, bool)
    has_initializer[[input_row for _, input_row in facts.derive(_initializers_with_inputs)]] = True
    last_graph = -1  # the graph of the last input with an initializer
    messages = {}
    for row in true_rows(_is_nested_element(infos, "GraphProto.input")).tolist():
        if has_initializer[row]:
            last_graph = int(infos.parent[row])
        elif last_graph == infos.parent[row]:
            name = facts.text(infos.name[row])
            messages[row] = f"input {name!r} has no initializer and comes after an input that has one; move it up"
    yield infos.each(messages)


def _is_of_function(facts: Facts, rows: Any) -> Any:
    """Return whether each of some rows of value_info in graphs describes a value of one of the model's functions.

    Functions have no value_info before IR version 10, so PyTorch's exporter and onnx-ir put it into the model's graph,
    under names `domain::function/value`. From IR version 10 on, all results are False.
    """
    infos, functions = facts.ValueInfoProto, facts.FunctionProto
    if not functions.n or (facts.declared_ir_version or 0) >= 10:
        return np.zeros(len(rows), bool)
    is_main = facts.derive(Scopes).graph_kind[infos.parent[rows]] == MAIN
    prefixes = {
        f"{facts.text(domain)}::{facts.text(name)}/"
        for domain, name in zip(functions.domain, functions.name, strict=True)
    }
    return is_main & facts.matching(lambda name: name[: name.find("/") + 1] in prefixes, infos.name[rows])


def _unknown_value_infos(facts: Facts) -> Any:
    """Return the rows of value_info in graphs that break `graph-value-info-known-name`."""
    infos, meanings = facts.ValueInfoProto, facts.derive(Scopes).value_info_meanings
    graphs = infos.parent_under("GraphProto.value_info")
    is_value = is_one_of(meanings, (INPUT, INITIALIZER, NODE)) | ((meanings == OUTER) & _is_algorithm(facts, graphs))
    rows = true_rows((graphs >= 0) & (infos.name != EMPTY) & ~is_value)
    return rows[~_is_of_function(facts, rows)]


def _value_infos_of_io(facts: Facts) -> list[tuple[int, int]]:
    """Return pairs: a row of value_info that names an input or output of its graph, the row of that input or output."""
    infos, declared = facts.ValueInfoProto, facts.derive(DeclaredTypes)
    rows = true_rows(declared.is_info & (infos.name != EMPTY))
    pairs = []
    for io_rows in (true_rows(declared.is_input), true_rows(declared.is_output)):
        is_name = np.zeros(facts.columns.text_count(), bool)
        is_name[infos.name[io_rows]] = True
        named_rows = rows[is_name[infos.name[rows]]]
        if len(named_rows):
            graph_names = (declared.graph[io_rows], infos.name[io_rows])
            positions = facts.join((declared.graph[named_rows], infos.name[named_rows]), graph_names)
            pairs += [(int(row), int(io_rows[i])) for row, i in zip(named_rows, positions, strict=True) if i >= 0]
    return pairs


@rule("graph-value-info-contradiction", "ValueInfoProto")
def value_info_contradiction(facts: Facts) -> Iterator[Finding]:
    """Yield value_info that contradicts the type or shape of the input, output or dense initializer of its name."""
    infos, declared, tensors = facts.ValueInfoProto, facts.derive(DeclaredTypes), facts.TensorProto
    messages = {}

    def compare(row: int, elem_type: int, dims: Any, kind: str) -> None:
        """Record a message if a value_info contradicts a type and shape. kind: the kind of value that has them."""
        name = facts.text(infos.name[row])
        reason = describe_contradiction(declared.dims(row), dims)
        if elem_type and declared.elem_type[row] and elem_type != declared.elem_type[row]:
            reason = f"element types {declared.elem_type[row]} and {elem_type}"
        if reason:
            messages[row] = f"value_info and the {kind} {name!r} have {reason}; remove the entry of value_info"

    for row, io_row in facts.derive(_value_infos_of_io):
        compare(row, int(declared.elem_type[io_row]), declared.dims(io_row), "input or output")
    rows = true_rows(declared.is_info & (facts.derive(Scopes).value_info_meanings == INITIALIZER))
    if len(rows):
        initializer_rows = true_rows(tensors.under("GraphProto.initializer"))
        matches = facts.join(
            (declared.graph[rows], infos.name[rows]), (tensors.parent[initializer_rows], tensors.name[initializer_rows])
        )
        for row, i in zip(rows.tolist(), matches.tolist(), strict=True):
            if i >= 0:
                tensor = int(initializer_rows[i])
                compare(row, int(tensors.data_type[tensor]), declared.tensor_dims(tensor), "initializer")
    yield infos.each(messages)


def _value_names(facts: Facts) -> tuple[Any, Any]:
    """Return every value that graphs define: rows of GraphProto, ids of names."""
    infos, scopes, outputs = facts.ValueInfoProto, facts.derive(Scopes), facts.lists("NodeProto.output")
    tensors, sparse = facts.TensorProto, facts.SparseTensorProto
    graphs = np.concatenate(
        [
            infos.parent_under("GraphProto.input"),
            scopes.node_graph[outputs.parent],
            tensors.parent_under("GraphProto.initializer"),
            sparse.parent_under("GraphProto.sparse_initializer"),
        ]
    )
    names = np.concatenate([infos.name, outputs.value, tensors.name, facts.derive(sparse_names)])
    is_value = (graphs >= 0) & (names != EMPTY)
    return graphs[is_value], names[is_value]
