"""Removes a node and connects its consumers to its input."""

from __future__ import annotations

import re

from onnxwire.analysis.live_scopes import captured_names
from onnxwire.analysis.paths import resolve
from onnxwire.errors import EditError, PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.transforms.extract import keep_if
from onnxwire.transforms.rename import rename_values, replace_uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.analysis.live_scopes import Scope


def bypass(model: ModelProto, path: str, input: int = 0) -> str:
    """Remove a node and connect the consumers of its first output to one of its inputs; returns the node's path.

    model: the model, which is modified in place. path: the path of a node in any graph or function, as for `resolve`.
    input: the index of the input.
    If the first output is an output of the graph, it keeps its name: the producer of the input is renamed to it. If the
    first output is not used, the node is only removed.
    Raises PathError if there is no such node; EditError if another output of the node is used, if the node lacks the
    input, or if an output of the graph would be a value that no node of the graph produces. The model is then
    unchanged.
    """
    found = resolve(model, path)
    node, source = found.value, model._document.name
    scope_path = found.path.rpartition(".node[")[0]
    if not isinstance(node, NodeProto) or found.element_index is None or not scope_path:
        raise PathError("the path does not name a node of a graph", path, source)
    scope: Scope = resolve(model, scope_path).value

    def refuse(reason: str) -> EditError:
        return EditError(reason, f"{source}: {found.path}")

    outputs, inputs = list(node.output), list(node.input)
    output_names = set(_output_names(scope))
    used = _used_names(scope, found.element_index) | output_names
    for name in outputs[1:]:
        if name and name in used:
            raise refuse(f"its output {name!r} is also used, and only the first output can be connected to an input")
    old = outputs[0] if outputs else ""
    if not old or old not in used:
        del scope.node[found.element_index]
        return found.path
    new = inputs[input] if 0 <= input < len(inputs) else ""
    if not new:
        raise refuse(f"the node has no input {input} to connect the consumers of {old!r} to; remove it without bypass")
    if new == old:
        raise refuse("its input is its own output")
    if old in output_names:
        is_made = any(new in other.output for index, other in enumerate(scope.node) if index != found.element_index)
        if not is_made or new in output_names:
            obstacle = "another output of the graph" if is_made else "not produced by a node of this graph"
            raise refuse(
                f"{old!r} is an output of the graph, and {new!r} is {obstacle}, so it can't be renamed to {old!r}; "
                "set op_type to Identity instead"
            )
        # The two values swap names, so that the removed value does not have the output's name. All remaining
        # errors are raised here.
        rename_values(model, {new: old, old: new}, scope=scope_path)
        if isinstance(scope, GraphProto):
            # Both values had a type; the type of the output remains.
            keep_if(scope.value_info, lambda value: value.name != old)
        old, new = new, old
    # This step precedes the removal of the node, so that the model is unchanged if it raises.
    replace_uses(model, old, new, scope=scope_path)
    del scope.node[found.element_index]
    return found.path


def bypass_all(model: ModelProto, paths: Iterable[str]) -> list[str]:
    """Bypass several nodes by their first inputs; returns their paths, in the given order.

    All paths are resolved first, so indexes do not shift. Raises the errors of `bypass`; the nodes before the faulty
    one are then already removed.
    """
    found = list(dict.fromkeys(resolve(model, path).path for path in paths))
    # Later nodes, and those in subgraphs of nodes, come first.
    for path in sorted(found, key=lambda path: [int(index) for index in re.findall(r"\[(\d+)\]", path)], reverse=True):
        bypass(model, path)
    return found


def _output_names(scope: Scope) -> list[str]:
    return list(scope.output) if isinstance(scope, FunctionProto) else [value.name for value in scope.output]


def _used_names(scope: Scope, without: int) -> set[str]:
    """Return the names that the nodes of a graph or function read, in their subgraphs too, except one node."""
    used: set[str] = set()
    for index, node in enumerate(scope.node):
        if index != without:
            used.update(node.input)
            used.update(captured_names(node))
    return used
