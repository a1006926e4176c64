"""Resolves paths that users write, such as `node:/layers.0/MatMul.attribute[axis]`, to messages and values.

    graph.node[12]                  fields, elements by index; -1 is the last element
    graph.node[3:6]                 several elements
    graph.node[/layers.0/MatMul]    an element by its name (key, domain or dim_param if its type has no name)
    node:/layers.0/MatMul           a node by its name, or by a value that it produces, in any graph
    tensor:w0  input:x  output:y  value:v  function:f
    tensor:w0[0:4,:8]               elements of a tensor, by numpy's basic indexing
    node:"a.b[0]".op_type           a name in quotes; without quotes, the longest name that matches, main graph first

The path "" is the message itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from json import JSONDecodeError, JSONDecoder
from types import EllipsisType
from typing import Any

from onnxwire.engine.descriptor import Descriptor, FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload
from onnxwire.engine.repeated import Repeated
from onnxwire.engine.search import Search
from onnxwire.errors import PathError, count_text, did_you_mean
from onnxwire.messages import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

IndexItem = int | slice | EllipsisType

_FIELD = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*)")
# Numbers have at most 19 digits, like those of an int64.
_SLICE = re.compile(r"\s*(-?\d{1,19})?\s*:\s*(-?\d{1,19})?\s*(?::\s*(-?\d{1,19})?\s*)?")
_INT = re.compile(r"\s*(-?\d{1,19})\s*")
_KEYS = ("name", "key", "domain", "dim_param")
"""The fields that identify the elements of a repeated field; the first of them that the message type has is used."""
_MAX_PATHS = 5  # maximum number of paths in an error message


@dataclass(frozen=True, slots=True)
class Resolved:
    """The value at a path.

    path: fields and indexes, even if the value was looked up by name. value: a message, a repeated field or a list of
    some of its elements, a number, a str, or a read-only buffer for a bytes field. parent: the message whose field
    `field` contains the value, None for the root; element_index: the index of an element, or None. index: the requested
    elements of a TensorProto, as for `TensorProto.read`, else None.
    """

    path: str
    value: Any
    parent: Message | None = None
    field: FieldDescriptor | None = None
    element_index: int | None = None
    index: tuple[IndexItem, ...] | None = None

    @property
    def is_set(self) -> bool:
        """Whether the value is not the default of an absent field; True for the root, repeated fields and
        their elements."""
        if self.parent is None or self.field is None or self.field.is_repeated:
            return True
        return self.parent.HasField(self.field.name)


def resolve(message: Message, path: str) -> Resolved:
    """Resolve a path; the docstring of this module describes the notation.

    message: the root, usually a model. path: a path, or kind:name followed by a path. The function reads only the
    messages on the path and, to find a name, the messages that can have it.
    Raises PathError for a path that is invalid or does not exist, and for an ambiguous name.
    """
    kind, colon, remainder = path.partition(":")
    if colon and kind in _KINDS:
        resolved, remainder = _resolve_name(message, kind, remainder, path)
    elif colon and re.fullmatch(r"[a-z]+", kind):
        kinds = ", ".join(f"{name}:" for name in _KINDS)
        raise _error(message, path, f"unknown prefix '{kind}:'; the prefixes are {kinds}")
    else:
        resolved, remainder = Resolved("", message), path
    while remainder:
        if resolved.index is not None:
            raise _error(message, path, f"nothing can follow the elements of a tensor, so {remainder!r} is wrong")
        if remainder.startswith("["):
            content, remainder = _parse_bracket(message, path, remainder)
            resolved = _resolve_element(message, path, resolved, content)
        else:
            step = _FIELD.match(remainder)
            if step is None or (resolved.path and not remainder.startswith(".")):
                _raise_if_name(message, path, resolved)
                raise _error(message, path, f"{remainder!r} is not a step; write .field or [index]")
            remainder = remainder[step.end() :]
            resolved = _resolve_field(message, path, resolved, step[1])
    return resolved


def _error(root: Message, path: str, reason: str) -> PathError:
    return PathError(reason, path, root._document.name)


def _raise_if_name(root: Message, path: str, resolved: Resolved) -> None:
    """Raise PathError with the kinds to write before the path, if the path begins with a name."""
    if resolved.path:
        return
    kinds = []
    for kind in _KINDS:
        try:
            _, remainder = _resolve_name(root, kind, path, path)
        except PathError:
            continue
        kinds += [f"{kind}:{path}"] if not remainder or remainder[0] in ".[" else []
    if kinds:
        raise _error(root, path, f"this is a name; write {' or '.join(kinds)}")


def _resolve_field(root: Message, path: str, resolved: Resolved, name: str) -> Resolved:
    """Resolve a field of the current message."""
    message = resolved.value
    if not isinstance(message, Message):
        shown_path = resolved.path or "this"
        if isinstance(message, Repeated | list):
            count = count_text(len(message), "element")
            hint = f"; choose one, such as {shown_path}[0].{name}" if len(message) else ""
            raise _error(root, path, f"{shown_path} has {count}{hint}")
        raise _error(root, path, f"{shown_path} is a value without fields, so there is no .{name} in it")
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        _raise_if_name(root, path, resolved)
        names = list(message.DESCRIPTOR.fields_by_name)
        hint = did_you_mean(name, names)
        listing = f"{hint} Its fields are" if hint else "; its fields are"
        raise _error(root, path, f"{message.DESCRIPTOR.name} has no field {name!r}{listing} {', '.join(names)}")
    field_path = f"{resolved.path}.{name}" if resolved.path else name
    value: Any
    if field.type == field.TYPE_BYTES and not field.is_repeated:
        # The attribute would copy the bytes, which can be gigabytes.
        value = message._payload(name)
        value = b"" if value is None else value
    else:
        value = getattr(message, name)
    return Resolved(field_path, value, message, field)


def _parse_bracket(root: Message, path: str, text: str) -> tuple[str | tuple[IndexItem, ...], str]:
    """Return the name or index in the brackets at the start of a text, and the text after them."""
    if text.startswith('["'):
        name, end = _parse_quoted(root, path, text, 1)
        if not text.startswith("]", end):
            raise _error(root, path, f"there is no ] after {text[:end]!r}")
        return name, text[end + 1 :]
    content, bracket, remainder = text[1:].partition("]")
    if not bracket:
        raise _error(root, path, f"{text!r} has no ] at its end")
    if not content:
        raise _error(root, path, "[] does not name an element; write an index, such as [0], or a name")
    index = parse_index(content)
    return content if index is None else index, remainder


def _parse_quoted(root: Message, path: str, text: str, start: int) -> tuple[str, int]:
    """Return the name in double quotes, as in JSON, at offset `start` of a text, and the offset after the quotes."""
    try:
        name, end = JSONDecoder().raw_decode(text, start)
    except JSONDecodeError as error:
        raise _error(root, path, f"the name in quotes is invalid: {error.msg}") from None
    return name, end


def parse_index(text: str) -> tuple[IndexItem, ...] | None:
    """Parse ints, slices and an ellipsis as in numpy's basic indexing; return None for other texts."""
    parts: list[IndexItem] = []
    for word in text.split(","):
        if word.strip() == "...":
            parts.append(...)
        elif (number := _INT.fullmatch(word)) is not None:
            parts.append(int(number[1]))
        elif (slice_match := _SLICE.fullmatch(word)) is not None:
            parts.append(slice(*[None if bound is None else int(bound) for bound in slice_match.groups()]))
        else:
            return None
    return tuple(parts)


def _resolve_element(root: Message, path: str, resolved: Resolved, content: str | tuple[IndexItem, ...]) -> Resolved:
    """Resolve one or several elements of the current value."""
    value = resolved.value
    if isinstance(value, TensorProto):
        if isinstance(content, str):
            raise _error(root, path, f"[{content}] is not an index of a tensor; write [3] or [0:4,:8]")
        return replace(resolved, index=content)
    if isinstance(value, Payload | memoryview | bytes | str | Repeated | list):
        if isinstance(content, str):
            index = _index_of(root, path, resolved, content)
        elif len(content) == 1 and not isinstance(content[0], EllipsisType):
            if isinstance(content[0], slice):
                return _resolve_slice(root, path, resolved, content[0])
            index = content[0]
        else:
            raise _error(root, path, f"{resolved.path} has one dimension; choose one element, or several as [0:4]")
        count = len(value)
        if not -count <= index < count:
            if count > 1:
                bounds = f"the {count:,} elements are [0] to [{count - 1}]"
            else:
                bounds = "the only element is [0]" if count else "it has no elements"
            raise _error(root, path, f"{resolved.path}[{index}] does not exist; {bounds}")
        index %= count
        element = memoryview(value)[index] if isinstance(value, Payload) else value[index]
        return Resolved(f"{resolved.path}[{index}]", element, resolved.parent, resolved.field, index)
    if isinstance(value, Message):
        hint = "; its parts are .values and .indices" if "values" in _field_names(value) else ""
        shown_path = resolved.path or "the root"
        raise _error(root, path, f"{shown_path} is one message, and has no elements to choose from{hint}")
    raise _error(root, path, f"{resolved.path} is one value, and has no elements to choose from")


def _field_names(message: Message) -> Iterable[str]:
    return message.DESCRIPTOR.fields_by_name


def _resolve_slice(root: Message, path: str, resolved: Resolved, part: slice) -> Resolved:
    """Resolve a slice of the elements of the current value."""
    if part.step == 0:
        raise _error(root, path, "the step of a slice can't be 0")
    value = resolved.value
    # A slice of bytes is not copied.
    values = memoryview(value)[part] if isinstance(value, Payload) else value[part]
    start, stop, step = ("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
    step = f":{step}" if step else ""
    return Resolved(f"{resolved.path}[{start}:{stop}{step}]", values, resolved.parent, resolved.field)


def _index_of(root: Message, path: str, resolved: Resolved, name: str) -> int:
    """Return the index of the element with a name."""
    descriptor = resolved.field.message_type if resolved.field is not None else None
    if descriptor is None:
        raise _error(
            root, path, f"[{name}] is not an index of {resolved.path}; its elements have no names, so write a number"
        )
    key = _key_of(descriptor)
    if key is None:
        raise _error(
            root,
            path,
            f"elements of type {descriptor.name} have no names; write an index instead of [{name}], such as [0]",
        )
    names = [getattr(element, key) for element in resolved.value]
    indexes = [index for index, element_name in enumerate(names) if element_name == name]
    if not indexes:
        raise _error(root, path, f"no element of {resolved.path} has the {key} {name!r}{did_you_mean(name, names)}")
    if len(indexes) > 1:
        raise ambiguous_name_error(root, path, name, [f"{resolved.path}[{index}]" for index in indexes])
    return indexes[0]


def _key_of(descriptor: Descriptor) -> str | None:
    """Return the field that identifies the elements of a message type, or None."""
    return next((key for key in _KEYS if key in descriptor.fields_by_name), None)


def ambiguous_name_error(root: Message, path: str, name: str, paths: list[str]) -> PathError:
    """Return the error for an ambiguous name. path: the requested path; paths: the paths of all matches."""
    ending = f" and {len(paths) - _MAX_PATHS:,} more" if len(paths) > _MAX_PATHS else ""
    shown_paths = ", ".join(paths[:_MAX_PATHS])
    return _error(root, path, f"{len(paths):,} elements are called {name!r}; choose by index: {shown_paths}{ending}")


# --- Lookup by name.

Named = tuple[str, Any, list[str]]
"""A path, the message or string at it, and its names."""
_SearchStages = list[Callable[[], Iterator[Named]]]
"""Functions that yield the messages to search for a name.

A function is called only if the functions before it yield no message of this name.
"""


def _resolve_name(root: Message, kind: str, text: str, path: str) -> tuple[Resolved, str]:
    """Find the message whose name is at the start of a text; return the message and the text after the name.

    The main graph is searched first. If it has a message of the same name, a message of another graph can be addressed
    only by its path. If it has a message whose name is the part of that name before a dot or `[`, a message of another
    graph can be addressed by its path, or by its name in quotes.
    """
    if text.startswith('"'):
        name, end = _parse_quoted(root, path, text, 0)
        ends = {name: end}
    else:
        # A name can contain dots and brackets, so every prefix can be the name. The first search stage that finds any
        # prefix determines it: the longest of those that it finds.
        # `ends` maps each prefix that may be the name to its end.
        ends = {text[:end]: end for end in [*(match.start() for match in re.finditer(r"[.\[]", text)), len(text)]}
        ends.pop("", None)
    for stage in _KINDS[kind](root):
        longest_name, matches = "", list[Resolved]()
        for message_path, message, names in stage():
            name = max((name for name in names if name in ends), key=len, default="")
            if not name or len(name) < len(longest_name):
                continue
            if len(name) > len(longest_name):
                longest_name, matches = name, []
            matches.append(_resolve_existing(root, message_path, message))
        if len(matches) > 1:
            raise ambiguous_name_error(root, path, longest_name, [match.path for match in matches])
        if matches:
            return matches[0], text[ends[longest_name] :]
    missing_name = max(ends, key=len, default="")
    known_names = (name for stage in _KINDS[kind](root) for _, _, names in stage() for name in names)
    hint = did_you_mean(missing_name, known_names)
    raise _error(root, path, f"there is no {kind} called {missing_name!r}{hint or ';'} {_LIST_COMMANDS[kind]}")


def _resolve_existing(root: Message, path: str, value: Any) -> Resolved:
    """Resolve a path of fields and indexes that exists."""
    parent_path, _, last_step = path.rpartition(".")
    name, _, index = last_step.rstrip("]").partition("[")
    parent: Any = root
    for step in re.findall(r"[^.\[\]]+", parent_path):
        parent = parent[int(step)] if step.isdigit() else getattr(parent, step)
    return Resolved(path, value, parent, parent.DESCRIPTOR.fields_by_name.get(name), int(index) if index else None)


def _messages_in_field(root: Message, *fields: str) -> Iterator[Named]:
    """Yield the named elements of fields of the root, or of the main graph of a model. A string is its own name."""
    graph, prefix = (root.graph, "graph.") if isinstance(root, ModelProto) else (root, "")
    for field in fields:
        if field in _field_names(graph):
            for index, element in enumerate(getattr(graph, field)):
                name = element if isinstance(element, str) else element.name  # inputs of functions are strings
                yield f"{prefix}{field}[{index}]", element, [name]


def _messages_of_class(root: Message, cls: type[Message]) -> Iterator[Named]:
    """Yield the messages of a class at any depth."""
    for path, message in Search(root, [cls]):
        yield path, message, [message.name]  # type: ignore[attr-defined]


def _nodes_by_output(root: Message) -> Iterator[Named]:
    """Yield all nodes; their names are their outputs."""
    for path, node in Search(root, [NodeProto]):
        yield path, node, list(node.output)


def _constant_tensors(root: Message) -> Iterator[Named]:
    """Yield the tensors of Constant nodes; their names are the outputs of the node."""
    for path, node in Search(root, [NodeProto]):
        if node.op_type == "Constant":
            for index, attribute in enumerate(node.attribute):
                if attribute.HasField("t"):
                    yield f"{path}.attribute[{index}].t", attribute.t, list(node.output)


def _functions(root: Message) -> Iterator[Named]:
    """Yield all functions; each has a name with its domain and a name without."""
    for path, function in Search(root, [FunctionProto]):
        yield path, function, [f"{function.domain}.{function.name}", function.name]


_KINDS: dict[str, Callable[[Message], _SearchStages]] = {
    "node": lambda root: [
        lambda: _messages_in_field(root, "node"),
        lambda: _messages_of_class(root, NodeProto),
        lambda: _nodes_by_output(root),
    ],
    "tensor": lambda root: [
        lambda: _messages_in_field(root, "initializer"),
        lambda: _messages_of_class(root, TensorProto),
        lambda: _constant_tensors(root),
    ],
    "input": lambda root: [lambda: _messages_in_field(root, "input")],
    "output": lambda root: [lambda: _messages_in_field(root, "output")],
    "value": lambda root: [
        lambda: _messages_in_field(root, "input", "output", "value_info"),
        lambda: _messages_of_class(root, ValueInfoProto),
    ],
    "function": lambda root: [lambda: _functions(root)],
}
_LIST_COMMANDS = {
    "node": "`onnxwire ls FILE --nodes` lists all nodes",
    "tensor": "`onnxwire ls FILE` lists all tensors",
    "input": "`onnxwire ls FILE --inputs` lists all inputs",
    "output": "`onnxwire ls FILE --outputs` lists all outputs",
    "value": "`onnxwire ls FILE --values` lists all values",
    "function": "`onnxwire info FILE` lists all functions",
}
