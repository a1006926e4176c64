"""Removes a node and connects its consumers to its input."""

from __future__ import annotations

import re

from onnxwire.analysis.live_scopes import captured_names, defined_names
from onnxwire.analysis.paths import resolve
from onnxwire.errors import EditError, PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.transforms.extract import keep_if
from onnxwire.transforms.rename import remove_annotations, rename_values, replace_uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.analysis.live_scopes import Scope


def bypass(model: ModelProto, path: str, input: int = 0) -> str:
    """Remove a node and connect the consumers of its first output to one of its inputs; return the node's path.

    model: the model, which is modified in place. path: the path of a node in any graph or function, as for `resolve`.
    input: the index of the input.
    If the first output is an output of the graph, its name remains, and the value of the input is renamed to it. If the
    first output is not used, the node is only removed.
    Raises PathError if the path does not name a node. Raises EditError if
        another output of the node is used,
        the first output is used, and the node lacks the input, or the input is also the first output,
        the first output is an output of the graph, and the input is another output of the graph or not produced by a
            node of the graph,
        or the first output is used, and a subgraph of the graph defines another value with the name of the input.
    After an error, the model is unchanged.
    """
    target = resolve(model, path)
    node, source = target.value, model._document.name
    scope_path = target.path.rpartition(".node[")[0]
    if not isinstance(node, NodeProto) or target.element_index is None or not scope_path:
        raise PathError("the path does not name a node of a graph", path, source)
    scope: Scope = resolve(model, scope_path).value

    def edit_error(reason: str) -> EditError:
        return EditError(reason, f"{source}: {target.path}")

    outputs, inputs = list(node.output), list(node.input)
    output_names = set(_output_names(scope))
    used_names = _used_names(scope, target.element_index) | output_names
    for name in outputs[1:]:
        if name and name in used_names:
            raise edit_error(
                f"its output {name!r} is also used, and only the first output can be connected to an input"
            )
    output_name = outputs[0] if outputs else ""
    if not output_name or output_name not in used_names:
        _remove_node(scope, target.element_index)
        return target.path
    input_name = inputs[input] if 0 <= input < len(inputs) else ""
    if not input_name:
        raise edit_error(
            f"the node has no input {input} to connect the consumers of {output_name!r} to; remove it without bypass"
        )
    if input_name == output_name:
        raise edit_error("its input is its own output")
    if output_name in output_names:
        is_produced = any(
            input_name in other_node.output
            for index, other_node in enumerate(scope.node)
            if index != target.element_index
        )
        if not is_produced or input_name in output_names:
            obstacle = "another output of the graph" if is_produced else "not produced by a node of this graph"
            raise edit_error(
                f"{output_name!r} is an output of the graph, and {input_name!r} is {obstacle}, so it can't be renamed "
                f"to {output_name!r}; set op_type to Identity instead"
            )
        # The two values swap names, so that the removed value does not have the output's name. If this call does
        # not raise, no later step does.
        rename_values(model, {input_name: output_name, output_name: input_name}, scope=scope_path)
        if isinstance(scope, GraphProto):
            # The graph declares the type of the output, so the value_info of the renamed input is a duplicate.
            keep_if(scope.value_info, lambda value: value.name != output_name)
        output_name, input_name = input_name, output_name
    # Without the renaming above, this step may raise; it precedes the removal, so that the model is then unchanged.
    replace_uses(model, output_name, input_name, scope=scope_path)
    _remove_node(scope, target.element_index)
    return target.path


def bypass_all(model: ModelProto, paths: Iterable[str]) -> list[str]:
    """Bypass several nodes by their first inputs; return their paths, in the order of `paths`, without duplicates.

    All paths are resolved first, so that indexes do not shift. Raises the errors of `bypass`; other nodes may then
    already be removed.
    """
    node_paths = list(dict.fromkeys(resolve(model, path).path for path in paths))
    # Later nodes come first, and the nodes of a subgraph before the node that contains it.
    for path in sorted(
        node_paths, key=lambda path: [int(index) for index in re.findall(r"\[(\d+)\]", path)], reverse=True
    ):
        bypass(model, path)
    return node_paths


def _remove_node(scope: Scope, index: int) -> None:
    """Remove a node, and the types and annotations of its outputs that nothing else defines."""
    names = list(scope.node[index].output)
    del scope.node[index]
    remaining_names = defined_names(scope)
    for name in names:
        if name and name not in remaining_names:
            remove_annotations(scope, name)


def _output_names(scope: Scope) -> list[str]:
    return list(scope.output) if isinstance(scope, FunctionProto) else [value.name for value in scope.output]


def _used_names(scope: Scope, excluded_index: int) -> set[str]:
    """Return the names that the nodes of a graph or function read, in their subgraphs too.

    The node at `excluded_index` is ignored.
    """
    names: set[str] = set()
    for index, node in enumerate(scope.node):
        if index != excluded_index:
            names.update(node.input)
            names.update(captured_names(node))
    return names
