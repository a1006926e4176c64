"""Removing a node in such a way that what took its output takes its input."""

from __future__ import annotations

from onnxwire.analysis.live_scopes import captured_names
from onnxwire.analysis.paths import resolve
from onnxwire.errors import EditError, PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.transforms.extract import keep_if
from onnxwire.transforms.rename import rename_values, replace_uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.analysis.live_scopes import Scope


def bypass(model: ModelProto, path: str, input: int = 0) -> str:
    """Remove a node and connect what takes its first output to one of its inputs; returns the node's path.

    model: is changed. path: of a node of any graph or function, as for `resolve`. input: which of its inputs.
    An output of the graph keeps its name: what makes the input gets it then. What nothing takes is not connected.
    Raises PathError where there is no such node, EditError where another output is taken too, where the input is not
    there, and where an output of the graph would be what no node of the graph makes; the model is then as it was.
    """
    found = resolve(model, path)
    node, source = found.value, model._document.name
    scope_path = found.path.rpartition(".node[")[0]
    if not isinstance(node, NodeProto) or found.element_index is None or not scope_path:
        raise PathError("this is not a node of a graph", path, source)
    scope: Scope = resolve(model, scope_path).value

    def refuse(reason: str) -> EditError:
        return EditError(reason, f"{source}: {found.path}")

    outputs, inputs = list(node.output), list(node.input)
    ends = set(_output_names(scope))
    used = _used_names(scope, found.element_index) | ends
    for name in outputs[1:]:
        if name and name in used:
            raise refuse(f"its output {name!r} is taken too, and only the first can be connected to an input")
    old = outputs[0] if outputs else ""
    if not old or old not in used:
        del scope.node[found.element_index]
        return found.path
    new = inputs[input] if 0 <= input < len(inputs) else ""
    if not new:
        raise refuse(f"there is no input {input} that what takes {old!r} could be connected to; remove it without that")
    if new == old:
        raise refuse("it takes its own output")
    if old in ends:
        is_made = any(new in other.output for index, other in enumerate(scope.node) if index != found.element_index)
        if not is_made or new in ends:
            what = "another output of the graph" if is_made else "not made by a node of this graph"
            raise refuse(
                f"{old!r} is an output of the graph, and {new!r} is {what}, so it can't be called {old!r}; "
                "set op_type to Identity instead"
            )
        # They change names, so that the one that goes is no output; what can't be done is refused here, or not at all.
        rename_values(model, {new: old, old: new}, scope=scope_path)
        if isinstance(scope, GraphProto):
            # Both had a type; that of the output is left.
            keep_if(scope.value_info, lambda value: value.name != old)
        old, new = new, old
    # Tried before the node goes, so that the model stays as it is where it can't be done.
    replace_uses(model, old, new, scope=scope_path)
    del scope.node[found.element_index]
    return found.path


def _output_names(scope: Scope) -> list[str]:
    return list(scope.output) if isinstance(scope, FunctionProto) else [value.name for value in scope.output]


def _used_names(scope: Scope, without: int) -> set[str]:
    """The names that the nodes of a graph or function take, those of their graphs included; one node is left out."""
    used: set[str] = set()
    for index, node in enumerate(scope.node):
        if index != without:
            used.update(node.input)
            used.update(captured_names(node))
    return used
