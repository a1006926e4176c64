"""All code that resolves names finds the same definition of a name, even in models that violate single assignment.

Random models have several nodes that produce one value, names that hide outer ones, nested graphs that capture values,
functions, initializers that are also inputs, and empty names. The results are compared with those of `Scope`, a plain
resolver written from the rules at the head of `index/names.pyx`.
"""

import random
from collections import Counter

import pytest

import onnxwire
from onnxwire import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.analysis.live_scopes import captured_names, defined_names, definitions
from onnxwire.checker.facts import Facts
from onnxwire.checker.scopes import Scopes
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.queries import Queries

NAMES = ["a", "b", "c", "d", "e", ""]


def fill_randomly(rng, scope, depth):
    """Fill a graph or function with random nodes and nested graphs; few names are used, so that they collide.

    depth: the maximum number of levels of nested graphs.
    """
    if isinstance(scope, GraphProto):
        for name in rng.choices(NAMES, k=rng.randrange(3)):
            scope.input.add(name=name)
        for name in rng.choices(NAMES, k=rng.randrange(3)):
            scope.initializer.add(name=name, data_type=1)
        for name in rng.choices(NAMES, k=rng.randrange(2)):
            scope.sparse_initializer.add().values.name = name
        for name in rng.choices(NAMES, k=rng.randrange(3)):
            scope.output.add(name=name)
    else:
        scope.input.extend(rng.choices(NAMES, k=rng.randrange(3)))
        scope.output.extend(rng.choices(NAMES, k=rng.randrange(3)))
    for _ in range(rng.randrange(5)):
        node = scope.node.add(op_type="Op")
        node.input.extend(rng.choices(NAMES, k=rng.randrange(4)))
        node.output.extend(rng.choices(NAMES, k=rng.randrange(3)))
        for _ in range(rng.randrange(3) if depth and rng.random() < 0.4 else 0):
            attribute = node.attribute.add(name="g")
            if rng.random() < 0.7:
                fill_randomly(rng, attribute.g, depth - 1)
            for _ in range(rng.randrange(2)):
                fill_randomly(rng, attribute.graphs.add(), depth - 1)


def random_model(seed):
    """Return a model with a random graph and up to two random functions, parsed from its encoding."""
    rng = random.Random(seed)
    model = ModelProto(ir_version=10)
    model.graph.SetInParent()
    fill_randomly(rng, model.graph, 3)
    for _ in range(rng.randrange(3)):
        fill_randomly(rng, model.functions.add(name="f", domain="d"), 2)
    return ModelProto.FromString(model.SerializeToString())


class Scope:
    """A graph or function in the plain resolver.

    outer_scope, outer_node: the scope that contains this graph, and the index of its node with the graph.
    definitions_by_name: for each name, the kind of its definition ("weight", "input" or "node") and the path of the
    tensor or node, "" for an input.
    """

    def __init__(self, message, path, outer_scope=None, outer_node=-1):
        self.message, self.path, self.outer_scope, self.outer_node = message, path, outer_scope, outer_node
        self.definitions_by_name = {}
        if isinstance(message, GraphProto):
            for i, tensor in enumerate(message.initializer):
                self.definitions_by_name.setdefault(tensor.name, ("weight", f"{path}.initializer[{i}]"))
            for i, sparse in enumerate(message.sparse_initializer):
                self.definitions_by_name.setdefault(
                    sparse.values.name, ("weight", f"{path}.sparse_initializer[{i}].values")
                )
            for value in message.input:
                self.definitions_by_name.setdefault(value.name, ("input", ""))
        else:
            for name in message.input:
                self.definitions_by_name.setdefault(name, ("input", ""))
        for i, node in enumerate(message.node):
            for name in node.output:
                self.definitions_by_name.setdefault(name, ("node", f"{path}.node[{i}]"))
        self.definitions_by_name.pop("", None)

    def defining_scope(self, name):
        """Return the scope that defines a name, or None, and the index of its node that contains `self`, or -1."""
        scope, outer_node = self, -1
        while scope is not None and name not in scope.definitions_by_name:
            scope, outer_node = scope.outer_scope, scope.outer_node
        return scope, outer_node


def scopes_in(message, path, outer_scope=None, outer_node=-1):
    """Yield the Scope of a graph or function and of all graphs in it. The arguments are those of Scope."""
    scope = Scope(message, path, outer_scope, outer_node)
    yield scope
    for i, node in enumerate(message.node):
        for k, attribute in enumerate(node.attribute):
            attribute_path = f"{path}.node[{i}].attribute[{k}]"
            if attribute.HasField("g"):
                yield from scopes_in(attribute.g, f"{attribute_path}.g", scope, i)
            for j, graph in enumerate(attribute.graphs):
                yield from scopes_in(graph, f"{attribute_path}.graphs[{j}]", scope, i)


def all_scopes(model):
    """Yield the scopes of a model: graphs and functions at any depth."""
    yield from scopes_in(model.graph, "graph")
    for i, function in enumerate(model.functions):
        yield from scopes_in(function, f"functions[{i}]")


def uses_of(scope):
    """Yield (scope, name, node, slot, kind) for each node input, node output and captured graph output of a scope.

    Empty names are omitted. The node is an index. For a captured name, the scope is the one that defines it, the
    node is the one in that scope that contains the nested graph, and the slot is None. Otherwise the slot is the index
    of the input or output. The kind is "output" for an output of a node, else "input".
    """
    for i, node in enumerate(scope.message.node):
        for slot, name in enumerate(node.input):
            scope_of_definition, outer_node = scope.defining_scope(name)
            if name:
                yield (
                    (scope, name, i, slot, "input")
                    if scope_of_definition in (None, scope)
                    else (scope_of_definition, name, outer_node, None, "input")
                )
        for slot, name in enumerate(node.output):
            if name:
                yield scope, name, i, slot, "output"
    if scope.outer_scope is not None:
        for value in scope.message.output:
            scope_of_definition, outer_node = scope.defining_scope(value.name)
            if scope_of_definition not in (None, scope):
                yield scope_of_definition, value.name, outer_node, None, "input"


@pytest.fixture(scope="module")
def models():
    return [random_model(seed) for seed in range(400)]


def test_the_random_models_have_duplicate_producers_and_captured_values(models):
    scopes = [scope for model in models for scope in all_scopes(model)]
    scopes_with_duplicates = [
        scope
        for scope in scopes
        if len(names := [name for node in scope.message.node for name in node.output if name]) > len({*names})
    ]
    captured_uses = [use for scope in scopes for use in uses_of(scope) if use[3] is None]
    assert len(scopes_with_duplicates) >= 200
    assert len(captured_uses) >= 200
    assert sum(isinstance(scope.message, FunctionProto) for scope in scopes_with_duplicates) >= 50


def uses_in_table(model):
    """Return the rows of the table `uses`: path of the scope, name, node, slot, kind."""
    rows = onnxwire.to_arrow(model, "uses").to_pydict()
    return list(zip(*(rows[name] for name in ("graph", "name", "node", "slot", "kind")), strict=True))


def test_the_table_of_uses_names_the_scope_that_defines_each_value(models):
    for model in models:
        rows = uses_in_table(model)
        expected = Counter((use[0].path, *use[1:]) for scope in all_scopes(model) for use in uses_of(scope))
        assert Counter(rows) == expected


def test_the_map_draws_the_node_that_produces_each_value(models):
    for model in models:
        columns = MapColumns(model)
        uses = zip(columns.use_row.tolist(), columns.use_index.tolist(), columns.use_value.tolist(), strict=True)
        drawn_uses = Counter((row, slot, int(columns.producer[value])) for row, slot, value in uses)
        expected = Counter()
        for scope in all_scopes(model):
            for scope_of_definition, name, node, slot, kind in uses_of(scope):
                if kind == "input":
                    definition_kind, path = scope_of_definition.definitions_by_name.get(name, ("", ""))
                    row = columns.row_of(f"{scope_of_definition.path}.node[{node}]")
                    expected[
                        row, -1 if slot is None else slot, columns.row_of(path) if definition_kind == "node" else -1
                    ] += 1
        assert drawn_uses == expected


def test_the_page_of_a_node_shows_the_definitions_of_its_inputs(models):
    for model in models[:150]:
        page = Queries(model)
        for scope in all_scopes(model):
            for i, node in enumerate(scope.message.node):
                entries = page.node(f"{scope.path}.node[{i}]")["inputs"]
                for name, entry in zip(node.input, entries, strict=True):
                    scope_of_definition, _ = scope.defining_scope(name)
                    expected = (
                        ("none", "")
                        if not name
                        else scope_of_definition.definitions_by_name[name]
                        if scope_of_definition is not None
                        else ("outer", "")
                    )
                    assert (entry["kind"], entry["path"]) == expected


def test_the_page_of_a_node_counts_the_nodes_that_read_its_outputs(models):
    for model in models[:150]:
        page = Queries(model)
        readers = {}
        for scope in all_scopes(model):
            for scope_of_definition, name, node, _, kind in uses_of(scope):
                if kind == "input":
                    readers.setdefault((scope_of_definition.path, name), set()).add(
                        f"{scope_of_definition.path}.node[{node}]"
                    )
        for scope in all_scopes(model):
            for i in range(len(scope.message.node)):
                for entry in page.node(f"{scope.path}.node[{i}]")["outputs"]:
                    assert set(entry["consumers"]) == readers.get((scope.path, entry["name"]), set())
                    assert entry["count"] == len(entry["consumers"])


def test_check_resolves_each_input_to_the_same_definition(models):
    for model in models:
        facts = Facts(model._document, ModelProto)
        resolved_scopes, inputs = facts.derive(Scopes), facts.lists("NodeProto.input")
        definitions_found = {}
        for row in range(inputs.n):
            scope, producer = int(resolved_scopes.defining_scopes[row]), int(resolved_scopes.producers[row])
            n_graphs = facts.GraphProto.n
            scope_facts, scope_row = (
                (facts.GraphProto, scope) if scope < n_graphs else (facts.FunctionProto, scope - n_graphs)
            )
            path = scope_facts.path(scope_row) if scope >= 0 else ""
            definitions_found[inputs.path(row)] = (path, facts.NodeProto.path(producer) if producer >= 0 else "")
        for scope in all_scopes(model):
            for i, node in enumerate(scope.message.node):
                for slot, name in enumerate(node.input):
                    scope_of_definition, _ = scope.defining_scope(name)
                    kind, path = (
                        scope_of_definition.definitions_by_name[name] if scope_of_definition is not None else ("", "")
                    )
                    expected = (
                        "" if scope_of_definition is None else scope_of_definition.path,
                        path if kind == "node" else "",
                    )
                    assert definitions_found[f"{scope.path}.node[{i}].input[{slot}]"] == expected


def test_definitions_and_captured_names_follow_the_same_rules(models):
    for model in models:
        for scope in all_scopes(model):
            inputs, initializers, producers = definitions(scope.message)
            assert (
                {*inputs, *initializers, *producers} == defined_names(scope.message) == scope.definitions_by_name.keys()
            )
            assert {name: f"{scope.path}.node[{index}]" for name, index in producers.items()} == {
                name: path for name, (kind, path) in scope.definitions_by_name.items() if kind == "node"
            }
            assert inputs.keys() == {name for name, (kind, _) in scope.definitions_by_name.items() if kind == "input"}
            for i, node in enumerate(scope.message.node):
                outer_names = set(captured_names(node))
                inner_scopes = [
                    inner_scope
                    for inner_scope in scopes_in(scope.message, scope.path, scope.outer_scope, scope.outer_node)
                    if inner_scope.outer_scope
                ]
                expected = {
                    name
                    for inner_scope in inner_scopes
                    if inner_scope.path.startswith(f"{scope.path}.node[{i}].")
                    for name in (
                        *(n for node in inner_scope.message.node for n in node.input),
                        *(v.name for v in inner_scope.message.output),
                    )
                    if name and not _is_defined_below(scope, inner_scope, name)
                }
                assert outer_names == expected


def _is_defined_below(outer_scope, scope, name):
    """Return whether `scope`, or a scope between it and `outer_scope`, defines a name."""
    while scope.path != outer_scope.path:
        if name in scope.definitions_by_name:
            return True
        scope = scope.outer_scope
    return False


def make_model_with_two_producers():
    """Make a model in which two nodes produce y, and nodes before, between and after them use it."""
    nodes = [(["y"], "p"), (["x"], "y"), (["y"], "q"), (["w"], "y"), (["y"], "r")]
    model = ModelProto(ir_version=10)
    for name in "xw":
        model.graph.input.add(name=name)
    for inputs, output in nodes:
        model.graph.node.add(op_type="Relu", input=inputs, output=[output])
    for name in "pqr":
        model.graph.output.add(name=name)
    return model


@pytest.mark.filterwarnings("ignore::onnxwire.UntypedValueWarning")
def test_the_first_node_that_produces_a_name_defines_its_value():
    model = make_model_with_two_producers()
    page = Queries(model)
    for node_index in (0, 2, 4):
        assert [entry["path"] for entry in page.node(f"graph.node[{node_index}]")["inputs"]] == ["graph.node[1]"]
    columns = MapColumns(model)
    assert {int(columns.producer[value]) for row, value in zip(columns.use_row, columns.use_value, strict=True)
            if row in (0, 2, 4)} == {1}  # fmt: skip
    assert [[*node.input] for node in onnxwire.extract(model, None, ["r"]).graph.node] == [["x"], ["y"]]


@pytest.mark.filterwarnings("ignore::onnxwire.UntypedValueWarning")
@pytest.mark.parametrize("field", ["input", "initializer"])
def test_an_input_or_initializer_has_precedence_over_nodes_that_produce_its_name(field):
    model = make_model_with_two_producers()
    if field == "input":
        model.graph.input.add(name="y")
    else:
        model.graph.initializer.add(name="y", data_type=1)
    entry = Queries(model).node("graph.node[4]")["inputs"][0]
    assert entry["kind"] == {"input": "input", "initializer": "weight"}[field]
    assert not (MapColumns(model).producer == 1).any()
    assert len(onnxwire.extract(model, None, ["r"]).graph.node) == 1


def test_an_outer_value_as_output_of_an_inner_graph_is_captured():
    branch = GraphProto()
    branch.output.add(name="x")
    model = ModelProto(ir_version=10)
    model.graph.input.add(name="x")
    model.graph.node.append(NodeProto(op_type="If", output=["y"]))
    model.graph.node[0].attribute.add(name="then_branch").g.CopyFrom(branch)
    assert uses_in_table(model) == [("graph", "y", 0, 0, "output"), ("graph", "x", 0, None, "input")]
