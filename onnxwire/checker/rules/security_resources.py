"""Rules of security: models that exhaust a runtime's memory or time, access memory out of range, or crash it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from onnxwire.checker.constant_inputs import ARGUMENT, DIVISION, INDEX, MAX_RANK, RANK
from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.function_calls import MAIN, FunctionCalls
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import Scopes
from onnxwire.checker.shape_bounds import MAX_INPUT_DEPENDENT_FACTOR, ShapeBounds
from onnxwire.engine.record_reader import bytes_at
from onnxwire.errors import count_text

# The maximum number of nodes after all calls are inlined is the greater of two numbers: _MAX_INLINED_NODES, and
# _MAX_INLINED_FACTOR times the number of nodes in the file.
_MAX_INLINED_NODES, _MAX_INLINED_FACTOR = 1_000_000, 100
_MAX_CALL_DEPTH = 64  # maximum number of nested calls
_MAX_GRAPH_DEPTH = 10  # maximum number of nested graphs
# The maximum nesting depth of a type, in messages: 3 for each nested graph, 3 around the type, and 2 for each of 15
# levels of the type.
_MAX_TYPE_DEPTH = 3 * _MAX_GRAPH_DEPTH + 3 + 2 * 15
# By type and field: the maximum number of elements of a list, or the maximum value of a number.
_MAX_COUNTS = {
    "ModelProto": {"opset_import": 256, "metadata_props": 4096, "configuration": 1024},
    "GraphProto": {"input": 20_000, "output": 20_000, "metadata_props": 4096},
    "NodeProto": {"input": 10_000, "output": 10_000, "attribute": 256, "metadata_props": 1024},
    "FunctionProto": {"opset_import": 256, "attribute": 4096},
    "DeviceConfigurationProto": {"num_devices": 1 << 20},
}
# Matches the names of attributes whose strings are checked as regular expressions.
_EXPRESSION_NAME = re.compile(r"pattern|regex|tokenexp|(?:^|_)re$", re.I)
_MAX_EXPRESSION_BYTES = 1 << 12  # longer expressions are not tested
# Limits of the product of a tensor's dims.
_MAX_EXTERNAL_FACTOR = 64  # for external data, as multiple of max_elements
_MAX_ELEMENTS_PER_BYTE = 8  # otherwise, for each byte of the message
_MAX_PRODUCT = 1 << 200  # greater products of dims are not computed
_MIN_LARGE_REPEAT_COUNT = 10  # repeats with a smaller maximum number of repetitions are ignored
_MIN_ADJACENT_REPEATS = 3  # minimum number of successive repeats of one token that are reported: three take cubic time
# A quantifier of a regular expression, and any other token of one.
_REPEAT = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")
_TOKEN = re.compile(r"\\.?|\((?:\?(?:P?<\w+>|<?[=!]|[:>|]|\w+[:)]?))?|\[\^?\]?[^\]]*\]?|.", re.S)


@rule("security-resource-elements", "NodeProto")
def elements(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with an output, or a buffer of their kernel, that is too large."""
    counts = facts.derive(ShapeBounds).elements
    yield facts.NodeProto.at(
        counts,
        "an output or buffer of {op_type!r} has at least {elements:,} elements, more than max_elements "
        "({facts.max_elements:,}) permits; do not run the model, or raise --max-elements",
        elements=counts,
    )


@rule("security-resource-overflow", "NodeProto")
def overflow(facts: Facts) -> Iterator[Finding]:
    """Yield nodes and shapes whose dims have too large a product.

    For an output or buffer of a node, a product of nonzero dims from 2**63 on is too large. For declared shapes, the
    limit of the product of positive dims is lower.
    """
    yield facts.NodeProto.at(
        facts.derive(ShapeBounds).overflows,
        "the nonzero dims of an output or buffer of {op_type!r} have a product of 2**63 or more, so that programs "
        "which multiply dims allocate too little; do not run the model",
    )
    if "TensorShapeProto.Dimension" in facts.present:
        dims = facts["TensorShapeProto.Dimension"]
        sizes: dict[int, int] = {}
        for shape, size in zip(dims.parent.tolist(), dims.dim_value.tolist(), strict=True):
            sizes[shape] = min(sizes.get(shape, 1) * max(size, 1), 1 << 63)
        yield facts.TensorShapeProto.at(
            [shape for shape, size in sizes.items() if size >= 1 << 63],
            "the product of the positive dims of the declared shape is 2**63 or more, so that programs which multiply "
            "dims allocate too little; do not run the model",
        )
        limit = facts.max_elements * MAX_INPUT_DEPENDENT_FACTOR
        yield facts.TensorShapeProto.at(
            [shape for shape, size in sizes.items() if limit < size < 1 << 63],
            "the product of the positive dims of the declared shape is more than {limit:,}, and programs allocate "
            "memory for values by their declared shapes; do not run the model",
            limit=lambda _: limit,
        )


@rule("security-resource-text", "NodeProto")
def text(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose output strings are too long or too many."""
    sizes = facts.derive(ShapeBounds).texts
    yield facts.NodeProto.at(
        sizes,
        "the strings of {op_type!r} have about {size:,} bytes together, more than max_elements "
        "({facts.max_elements:,}) permits; do not run the model, or raise --max-elements",
        size=sizes,
    )


@rule("security-resource-total", "NodeProto")
def total_elements(facts: Facts) -> Iterator[Finding]:
    """Yield the first node at which the sum of the sizes of large outputs exceeds the limit.

    Only outputs whose size depends on no input of the model are added; see security-resource-total in security.tsv.
    """
    node_and_total = facts.derive(ShapeBounds).total
    if node_and_total is not None:
        node, count = node_and_total
        yield facts.NodeProto.each(
            {
                node: f"up to this node, outputs whose size depends on no input have at least {count:,} elements "
                "together; runtimes that fold constants keep them in memory"
            }
        )


@rule("security-resource-hidden", "NodeProto")
def hidden_size(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with a size that depends on constants only, but that `ShapeBounds` does not compute."""
    positions = facts.derive(ShapeBounds).hidden_sizes
    yield facts.NodeProto.at(
        positions,
        "input[{position}] of {op_type!r}, which determines a size, depends on constants only, but the check cannot "
        "compute it; store its elements in the model",
        position=positions,
    )


@rule("security-resource-count")
def count(facts: Facts) -> Iterator[Finding]:
    """Yield messages with more elements in a list, or a greater number, than usual models have."""
    for type_name, limits in _MAX_COUNTS.items():
        if type_name in facts.present:
            sheet = facts[type_name]
            for field, limit in limits.items():
                if f"{type_name}.{field}" in facts.present:
                    counts = getattr(sheet, field)
                    amount = "is {count:,}" if field == "num_devices" else "has {count:,} elements"
                    yield sheet.at(
                        counts > limit,
                        f"`{field}` {amount}, and no more than {limit:,} are usual",
                        count=counts,
                    )


@rule("security-resource-loop", "NodeProto")
def endless_loop(facts: Facts) -> Iterator[Finding]:
    """Yield loops whose condition is true in all evaluated iterations, and whose trip count is absent or too great."""
    iteration_texts = facts.derive(ShapeBounds).endless_loops
    yield facts.NodeProto.at(
        iteration_texts,
        "the condition of {op_type!r} is true in all evaluated iterations, so that the loop may run {count}; do not "
        "run the model",
        count=iteration_texts,
    )


@rule("security-resource-iterations", "NodeProto")
def iterations(facts: Facts) -> Iterator[Finding]:
    """Yield loops whose body runs too often; the iterations of enclosing loops are multiplied."""
    iteration_counts = facts.derive(ShapeBounds).iterations
    yield facts.NodeProto.at(
        iteration_counts, "the body of {op_type!r} runs {count:,} times; do not run the model", count=iteration_counts
    )


@rule("security-resource-index", "NodeProto")
def index(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with a constant, such as an index, that is out of range."""
    faults = facts.derive(ShapeBounds).faults.get(INDEX, {})
    yield facts.NodeProto.at(
        faults, "a constant of {op_type!r} is out of range: {constant}; do not run the model", constant=faults
    )


@rule("security-resource-division", "NodeProto")
def division(facts: Facts) -> Iterator[Finding]:
    """Yield nodes that divide integers by a constant zero."""
    yield facts.NodeProto.at(
        facts.derive(ShapeBounds).faults.get(DIVISION, {}),
        "{op_type!r} divides integers by a constant zero, which ends the process; do not run the model",
    )


@rule("security-resource-argument", "NodeProto")
def argument(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with arguments that their kernel does not support."""
    faults = facts.derive(ShapeBounds).faults.get(ARGUMENT, {})
    yield facts.NodeProto.at(faults, "{op_type!r} has {fault}; do not run the model", fault=faults)


@rule("security-resource-shape", "NodeProto", "ValueInfoProto")
def contradicted_shapes(facts: Facts) -> Iterator[Finding]:
    """Yield values whose declared shape differs from the computed one."""
    shapes = facts.derive(ShapeBounds).contradicted_shapes
    yield facts.ValueInfoProto.at(
        shapes, "value {name!r} has the shape {shape}, and another is declared; do not run the model", shape=shapes
    )


@rule("security-resource-body", "NodeProto", "GraphProto")
def body_sizes(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose graphs have a number of inputs or outputs that does not fit the node."""
    bounds, nodes = facts.derive(ShapeBounds), facts.NodeProto
    input_counts, output_counts = facts.GraphProto.input, facts.GraphProto.output
    sizes = {}
    for node, op_type in bounds.nodes_with_bodies("If", "Loop", "Scan"):
        n_inputs, n_outputs = int(nodes.input[node]), int(nodes.output[node])
        for graph in bounds.bodies(node).values():
            n_body_inputs, n_body_outputs = int(input_counts[graph]), int(output_counts[graph])
            # A Scan of operator set 8 has the lengths of the sequences as its first input.
            do_counts_fit = {
                "If": n_body_inputs == 0 and n_body_outputs >= n_outputs,
                "Loop": n_body_inputs == max(n_inputs, 2) and n_body_outputs > n_outputs,
                "Scan": n_body_inputs in (n_inputs, n_inputs - 1) and n_body_outputs >= n_outputs,
            }
            if not do_counts_fit[op_type]:
                sizes[node] = f"{count_text(n_body_inputs, 'input')} and {count_text(n_body_outputs, 'output')}"
    yield nodes.at(
        sizes, "a graph of {op_type!r} has {size}, which do not fit the node; do not run the model", size=sizes
    )


@rule("security-resource-type", "NodeProto", "ValueInfoProto")
def branch_types(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose graphs declare different types for one value.

    The value is an output of both branches of an If, or a state of a Loop or Scan, which is an input and an output of
    the body.
    """
    bounds, declared = facts.derive(ShapeBounds), facts.derive(DeclaredTypes)
    fields = facts.TypeProto.fields
    # A value of an optional type may be declared by the type of its element; opaque types are not compared, and a
    # denotation is not a type.
    compared_kinds = [
        i for i, field in enumerate(fields) if field not in ("optional_type", "opaque_type", "denotation")
    ]
    output_names = {}
    for node, op_type in bounds.nodes_with_bodies("If", "Loop", "Scan"):
        graphs = list(bounds.bodies(node).values())
        outputs = bounds.graph_rows("ValueInfoProto", "GraphProto.output", graphs[0])
        if op_type == "If":
            if len(graphs) < 2:
                continue
            counterparts = bounds.graph_rows("ValueInfoProto", "GraphProto.output", graphs[1])
        else:
            # States are the first inputs and outputs of the body, except that in a Loop the iteration number and the
            # condition precede the inputs, and the condition precedes the outputs.
            counterparts = bounds.graph_rows("ValueInfoProto", "GraphProto.input", graphs[0])
            n_skipped = int(op_type == "Loop")
            n_states = int(facts.NodeProto.input[node]) - 2
            if op_type == "Scan":
                attribute = bounds.constants.attributes(node).get("num_scan_inputs")
                n_states = len(counterparts) - attribute.i if attribute is not None else 0
            outputs, counterparts = outputs[n_skipped : n_skipped + max(n_states, 0)], counterparts[2 * n_skipped :]
        for left, right in zip(outputs, counterparts, strict=False):
            kinds = [int(declared.kind[row]) for row in (left, right)]
            elem_types = [int(declared.elem_type[row]) for row in (left, right)]
            do_types_differ = kinds[0] != kinds[1] or (elem_types[0] != elem_types[1] and all(elem_types))
            if do_types_differ and all(kind in compared_kinds for kind in kinds):
                output_names[node] = facts.text(facts.ValueInfoProto.name[left])
    yield facts.NodeProto.at(
        output_names,
        "output {name!r} of a graph of {op_type!r} has another type than the same value in the other branch or in the "
        "inputs; do not run the model",
        name=output_names,
    )


@rule("security-resource-rank")
def rank(facts: Facts) -> Iterator[Finding]:
    """Yield tensors, types and nodes with more dimensions than numpy represents."""
    template = "the shape has {rank} dimensions, and numpy represents at most 64; do not load the model"
    for name, field in (("TensorProto", "dims"), ("TensorShapeProto", "dim")):
        if name in facts.present:
            sheet = facts[name]
            ranks = getattr(sheet, field)
            yield sheet.at(ranks > MAX_RANK, template, rank=ranks)
    if "NodeProto" in facts.present:
        ranks_by_node = facts.derive(ShapeBounds).faults.get(RANK, {})
        yield facts.NodeProto.at(
            ranks_by_node,
            "{op_type!r} requires {rank} dimensions, and numpy represents at most 64; do not run the model",
            rank=ranks_by_node,
        )


class InlinedSizes:
    """The sizes of functions and of the model after all calls are inlined.

    `facts.derive(InlinedSizes)` returns the object.
    sizes, depths: for each FunctionProto, the number of nodes and the depth of calls; math.inf if it is recursive or
    calls a recursive function.
    main, depth: the same two numbers for the nodes outside of functions. n_stored_nodes: the number of nodes in the
    file.
    """

    def __init__(self, facts: Facts) -> None:
        calls = facts.derive(FunctionCalls)
        own_sizes = np.bincount(facts.derive(Scopes).node_function + 1, minlength=calls.n).tolist()
        sizes, depths = ([math.inf] * calls.n for _ in range(2))
        for vertex in calls.order.tolist():
            if vertex not in calls.recursive:
                edges = range(calls.starts[vertex], calls.starts[vertex + 1])
                depths[vertex] = 1 + max((depths[calls.callees[i]] for i in edges), default=0)
                if depths[vertex] < math.inf:
                    size = own_sizes[vertex] + sum(calls.counts[i] * sizes[calls.callees[i]] for i in edges)
                    sizes[vertex] = min(size, 1e300)  # an infinite size would mean recursion
        self.main, self.depth = sizes[MAIN], depths[MAIN]
        self.sizes, self.depths = sizes[1:], depths[1:]
        self.n_stored_nodes = facts.NodeProto.n


def _rows_above(numbers: list[float], limit: float) -> dict[int, float]:
    """Return the finite numbers above a limit, by row."""
    return {row: number for row, number in enumerate(numbers) if limit < number < math.inf}


@rule("security-resource-function-size", "FunctionProto", "NodeProto")
def function_size(facts: Facts) -> Iterator[Finding]:
    """Yield functions that become too large when their calls are inlined; the first function if only the model does."""
    inlined = facts.derive(InlinedSizes)
    limit = max(_MAX_INLINED_NODES, _MAX_INLINED_FACTOR * inlined.n_stored_nodes)
    sizes = _rows_above(inlined.sizes, limit)
    yield facts.FunctionProto.at(
        sizes,
        "function {name!r} has {count:.3g} nodes when its calls are inlined, as runtimes do; do not load the model",
        count=sizes,
    )
    if inlined.main > limit and not sizes and math.isfinite(inlined.main):
        yield facts.FunctionProto.each(
            {0: f"the model has {inlined.main:.3g} nodes when its functions are inlined; do not load it"}
        )


@rule("security-resource-function-depth", "FunctionProto", "NodeProto")
def function_depth(facts: Facts) -> Iterator[Finding]:
    """Yield functions with long chains of calls."""
    depths = _rows_above(facts.derive(InlinedSizes).depths, _MAX_CALL_DEPTH)
    yield facts.FunctionProto.at(
        depths,
        "a call of function {name!r} leads to {depth:.0f} nested calls, which exhausts the stack of runtimes; do not "
        "load the model",
        depth=depths,
    )


@rule("security-resource-nesting")
def nesting(facts: Facts) -> Iterator[Finding]:
    """Yield deeply nested graphs, and the first deeply nested type."""
    graphs = facts.GraphProto
    yield graphs.at(
        graphs.depth > 3 * _MAX_GRAPH_DEPTH + 1,
        "graph {name!r} is nested more than 10 graphs deep, which exhausts the stack of programs that visit graphs "
        "recursively",
    )
    if "TypeProto" in facts.present:
        types = facts.TypeProto
        yield types.at(
            true_rows(types.depth > _MAX_TYPE_DEPTH)[:1],
            "the type is nested more than 63 messages deep in the model, which exhausts the stack of programs that "
            "visit types recursively",
        )


@rule("security-resource-sparse", "SparseTensorProto")
def sparse(facts: Facts) -> Iterator[Finding]:
    """Yield sparse tensors whose dense tensor is too large."""
    tensors = facts.SparseTensorProto
    sizes = _products(facts, "SparseTensorProto")
    large_tensors = {row: size for row, size in enumerate(sizes) if size > facts.max_elements}
    yield tensors.at(
        large_tensors,
        "the sparse tensor has {elements:,} elements when it becomes dense, and the limit is {facts.max_elements:,}; "
        "do not load the model, or raise --max-elements",
        elements=large_tensors,
    )


@rule("security-resource-declared", "TensorProto")
def declared(facts: Facts) -> Iterator[Finding]:
    """Yield tensors whose dims require far more elements than their message, or any file, has.

    Tensors with a dim of 0 or less are reported if the product of the absolute values of the nonzero dims is 2**63 or
    more.
    """
    tensors = facts.TensorProto
    lengths = tensors.length.tolist()
    is_external = (tensors.external_data > 0).tolist()
    sizes = _products(facts, "TensorProto")
    large_tensors = {
        row: size
        for row, size in enumerate(sizes)
        if size > facts.max_elements
        and size
        > (facts.max_elements * _MAX_EXTERNAL_FACTOR if is_external[row] else lengths[row] * _MAX_ELEMENTS_PER_BYTE)
    }
    dims = facts.lists("TensorProto.dims")
    products: dict[int, int] = {}
    for row, dim in zip(dims.parent.tolist(), dims.value.tolist(), strict=True):
        if sizes[row] == 0:
            products[row] = min(products.get(row, 1) * max(abs(dim), 1), _MAX_PRODUCT)
    yield tensors.at(
        [row for row, product in products.items() if product >= 1 << 63],
        "a dim of tensor {name!r} is 0 or negative, but the absolute values of the nonzero dims have a product of "
        "2**63 or more; do not load the model",
    )
    yield tensors.at(
        large_tensors,
        "the dims of tensor {name!r} require {elements:,} elements, far more than its message or any file has; do not "
        "load the model",
        elements=large_tensors,
    )


def _products(facts: Facts, name: str) -> list[int]:
    """Return the product of the dims of each row of TensorProto or SparseTensorProto; a negative dim counts as 0."""
    dims = facts.lists(f"{name}.dims")
    sizes = [1] * facts[name].n
    for row, dim in zip(dims.parent.tolist(), dims.value.tolist(), strict=True):
        sizes[row] = min(sizes[row] * max(dim, 0), _MAX_PRODUCT)
    return sizes


@rule("security-resource-expression", "AttributeProto")
def expression(facts: Facts) -> Iterator[Finding]:
    """Yield regular expressions with nested, ambiguous or adjacent repeats."""
    attributes = facts.AttributeProto
    is_expression = facts.matching(lambda name: _EXPRESSION_NAME.search(name) is not None, attributes.name)
    offsets, lengths = attributes.span("s")
    rows_with_fault = []
    for row in true_rows(is_expression & attributes.has("s")).tolist():
        if 0 < lengths[row] <= _MAX_EXPRESSION_BYTES:
            text = bytes_at(facts.document, int(offsets[row]), int(offsets[row] + lengths[row]))
            if has_slow_repeats(text.decode("utf-8", "replace")):
                rows_with_fault.append(row)
    yield attributes.at(
        rows_with_fault,
        "the regular expression has nested, ambiguous or adjacent repeats, which take exponential or cubic time in "
        "engines that backtrack; rewrite it",
    )


class _OpenGroup:
    """A group of a regular expression, up to the current position.

    has_repeat: whether it contains a repeat. first_tokens: the first token of each alternative, "" for an empty one and
    for one that begins with a group. is_at_start: whether the next token is the first one of an alternative.
    """

    def __init__(self) -> None:
        self.has_repeat = False
        self.first_tokens = [""]
        self.is_at_start = True

    def has_equal_alternatives(self) -> bool:
        """Return whether two alternatives have equal elements of `first_tokens`."""
        return len(set(self.first_tokens)) < len(self.first_tokens)


def has_slow_repeats(expression: str) -> bool:
    """Return whether a regular expression has repeats that take exponential or cubic time in engines that backtrack.

    Such repeats are: a repeated group that contains a repeat; a repeated group in which two alternatives begin with the
    same token, begin with groups or are empty; three repeats of the same token in succession.
    Repeats of at most 9 repetitions are ignored.
    """
    position = 0
    groups = [_OpenGroup()]  # the whole expression, and the open groups in it
    last_group: _OpenGroup | None = None  # the group that ends directly before the position
    # The last token, and the equal tokens with repeats that end directly before the position or before the last token;
    # [""] for none.
    last_token, repeated_tokens = "", [""]
    while position < len(expression):
        repeat = _REPEAT.match(expression, position)
        if repeat is not None:
            # The maximum number of repetitions as text, "" for no maximum.
            max_count = (
                {"*": "", "+": "", "?": "1"}.get(repeat[0]) if repeat[2] is None else repeat[3 if repeat[2] else 1]
            )
            assert max_count is not None
            is_many = max_count == "" or int(max_count[:9]) >= _MIN_LARGE_REPEAT_COUNT
            if is_many:
                if last_group is not None and (last_group.has_repeat or last_group.has_equal_alternatives()):
                    return True
                repeated_tokens = [*repeated_tokens, last_token] if last_token == repeated_tokens[-1] else [last_token]
                if len(repeated_tokens) >= _MIN_ADJACENT_REPEATS and last_group is None:
                    return True
                groups[-1].has_repeat = True
            position = repeat.end()
            continue
        token = _TOKEN.match(expression, position)
        assert token is not None
        if token[0] != repeated_tokens[-1]:
            repeated_tokens = [""]
        position, last_token, last_group = token.end(), token[0], None
        if last_token[0] == "(":
            groups.append(_OpenGroup())
        elif last_token == ")" and len(groups) > 1:
            last_group = groups.pop()
            groups[-1].has_repeat |= last_group.has_repeat
            groups[-1].is_at_start = False
        elif last_token == "|":
            groups[-1].first_tokens.append("")
            groups[-1].is_at_start = True
        elif groups[-1].is_at_start:
            groups[-1].first_tokens[-1] = last_token
            groups[-1].is_at_start = False
    return False
