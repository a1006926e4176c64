"""Resolves paths that users write, such as `node:/layers.0/MatMul.attribute[axis]`, to messages and values.

    graph.node[12]                  fields, elements by index; -1 is the last element
    graph.node[3:6]                 several elements
    graph.node[/layers.0/MatMul]    an element by its name, the key of an entry, or the domain of an operator set
    node:/layers.0/MatMul           a node by its name, or by a value that it produces, in any graph
    tensor:w0  input:x  output:y  value:v  function:f
    tensor:w0[0:4,:8]               elements of a tensor, by numpy's basic indexing
    node:"a.b[0]".op_type           a name in quotes; without quotes, the longest existing name is used

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
from onnxwire.errors import PathError, did_you_mean
from onnxwire.messages import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

IndexItem = int | slice | EllipsisType

_FIELD = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*)")
_SLICE = re.compile(r"\s*(-?\d{1,19})?\s*:\s*(-?\d{1,19})?\s*(?::\s*(-?\d{1,19})?\s*)?")
_INT = re.compile(r"\s*(-?\d{1,19})\s*")
_KEYS = ("name", "key", "domain", "dim_param")
"""The fields that identify the elements of a repeated field; the first one in the message type is used."""
_MAX_PATHS = 5  # maximum number of paths in an error message


@dataclass(frozen=True, slots=True)
class Resolved:
    """The value that a path leads to.

    path: fields and indexes, even if the value was found by name. value: a message, a repeated field or a list of some
    of its elements, a number, a str, or a read-only buffer for a bytes field. parent: the message whose field `field`
    contains the value, None for the root; element_index: the index of an element, or None. index: the requested
    elements of a TensorProto, as for `TensorProto.read`, or None for the tensor itself.
    """

    path: str
    value: Any
    parent: Message | None = None
    field: FieldDescriptor | None = None
    element_index: int | None = None
    index: tuple[IndexItem, ...] | None = None

    @property
    def is_set(self) -> bool:
        """Whether the value is present, and not the default of an absent field."""
        if self.parent is None or self.field is None or self.field.is_repeated:
            return True
        return self.parent.HasField(self.field.name)


def resolve(message: Message, path: str) -> Resolved:
    """Resolve a path; the docstring of this module describes the notation.

    message: the root, usually a model. path: a path, or kind:name followed by a path. Only messages on the path are
    read, and to find a name, all names of its kind.
    Raises PathError for a path that does not exist and an ambiguous name; the message lists alternatives.
    """
    kind, colon, rest = path.partition(":")
    if colon and kind in _KINDS:
        found, rest = _by_name(message, kind, rest, path)
    elif colon and re.fullmatch(r"[a-z]+", kind):
        known = ", ".join(f"{known}:" for known in _KINDS)
        raise _error(message, path, f"there is no {kind}: before a name; the kinds are {known}")
    else:
        found, rest = Resolved("", message), path
    while rest:
        if found.index is not None:
            raise _error(message, path, f"nothing can follow the elements of a tensor, so {rest!r} is wrong")
        if rest.startswith("["):
            content, rest = _bracket(message, path, rest)
            found = _element(message, path, found, content)
        else:
            step = _FIELD.match(rest)
            if step is None or (found.path and not rest.startswith(".")):
                _refuse_name(message, path, found)
                raise _error(message, path, f"{rest!r} is not a step; write .field or [index]")
            rest = rest[step.end() :]
            found = _field(message, path, found, step[1])
    return found


def _error(root: Message, path: str, reason: str) -> PathError:
    return PathError(reason, path, root._document.name)


def _refuse_name(root: Message, path: str, found: Resolved) -> None:
    """Raise PathError if the path is a name, and suggest its kind."""
    if found.path:
        return
    kinds = []
    for kind in _KINDS:
        try:
            _, rest = _by_name(root, kind, path, path)
        except PathError:
            continue
        kinds += [f"{kind}:{path}"] if not rest or rest[0] in ".[" else []
    if kinds:
        raise _error(root, path, f"this is a name; write {' or '.join(kinds)}")


def _field(root: Message, path: str, found: Resolved, name: str) -> Resolved:
    """Resolve a field of the current message."""
    message = found.value
    if not isinstance(message, Message):
        here = found.path or "this"
        if isinstance(message, Repeated | list):
            raise _error(root, path, f"{here} has {len(message):,} elements; choose one, such as {here}[0].{name}")
        raise _error(root, path, f"{here} is a value without fields, so there is no .{name} in it")
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        _refuse_name(root, path, found)
        names = list(message.DESCRIPTOR.fields_by_name)
        raise _error(
            root,
            path,
            f"{message.DESCRIPTOR.name} has no field {name!r}{did_you_mean(name, names)}; it has {', '.join(names)}",
        )
    here = f"{found.path}.{name}" if found.path else name
    value: Any
    if field.type == field.TYPE_BYTES and not field.is_repeated:
        # The attribute would copy the bytes, which can be gigabytes.
        value = message._payload(name)
        value = b"" if value is None else value
    else:
        value = getattr(message, name)
    return Resolved(here, value, message, field)


def _bracket(root: Message, path: str, text: str) -> tuple[str | tuple[IndexItem, ...], str]:
    """Return the name or index in the brackets at the start of a text, and the text after them."""
    if text.startswith('["'):
        name, end = _quoted(root, path, text, 1)
        if not text.startswith("]", end):
            raise _error(root, path, f"there is no ] after {text[:end]!r}")
        return name, text[end + 1 :]
    content, bracket, rest = text[1:].partition("]")
    if not bracket:
        raise _error(root, path, f"{text!r} has no ] at its end")
    if not content:
        raise _error(root, path, "[] does not name an element; write an index, such as [0], or a name")
    index = parse_index(content)
    return content if index is None else index, rest


def _quoted(root: Message, path: str, text: str, start: int) -> tuple[str, int]:
    """Return a name in double quotes, with the escapes of JSON, and its end."""
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
        elif (ends := _SLICE.fullmatch(word)) is not None:
            parts.append(slice(*[None if end is None else int(end) for end in ends.groups()]))
        else:
            return None
    return tuple(parts)


def _element(root: Message, path: str, found: Resolved, content: str | tuple[IndexItem, ...]) -> Resolved:
    """Resolve one or several elements of the current value."""
    value = found.value
    if isinstance(value, TensorProto):
        if isinstance(content, str):
            raise _error(root, path, f"[{content}] is not an index of a tensor; write [3] or [0:4,:8]")
        return replace(found, index=content)
    if isinstance(value, Payload | memoryview | bytes | str | Repeated | list):
        if isinstance(content, str):
            index = _index_of(root, path, found, content)
        elif len(content) == 1 and not isinstance(content[0], EllipsisType):
            if isinstance(content[0], slice):
                return _slice(root, path, found, content[0])
            index = content[0]
        else:
            raise _error(root, path, f"{found.path} has one dimension; choose one element, or several as [0:4]")
        count = len(value)
        if not -count <= index < count:
            known = f"the {count:,} elements are [0] to [{count - 1}]" if count else "it has no elements"
            raise _error(root, path, f"{found.path}[{index}] does not exist; {known}")
        index %= count
        element = memoryview(value)[index] if isinstance(value, Payload) else value[index]
        return Resolved(f"{found.path}[{index}]", element, found.parent, found.field, index)
    if isinstance(value, Message):
        of = ", a SparseTensorProto; its parts are .values and .indices" if "values" in _names(value) else ""
        raise _error(root, path, f"{found.path or 'the root'} is one message{of}, and has no elements to choose from")
    raise _error(root, path, f"{found.path} is one value, and has no elements to choose from")


def _names(message: Message) -> Iterable[str]:
    return message.DESCRIPTOR.fields_by_name


def _slice(root: Message, path: str, found: Resolved, part: slice) -> Resolved:
    if part.step == 0:
        raise _error(root, path, "the step of a slice can't be 0")
    value = found.value
    # A slice of bytes is not copied.
    values = memoryview(value)[part] if isinstance(value, Payload) else value[part]
    ends = ["" if end is None else str(end) for end in (part.start, part.stop, part.step)]
    step = f":{ends[2]}" if ends[2] else ""
    return Resolved(f"{found.path}[{ends[0]}:{ends[1]}{step}]", values, found.parent, found.field)


def _index_of(root: Message, path: str, found: Resolved, name: str) -> int:
    """Return the index of the element with a name."""
    descriptor = found.field.message_type if found.field is not None else None
    if descriptor is None:
        raise _error(
            root, path, f"[{name}] is not an index of {found.path}; its elements have no names, so write a number"
        )
    key = _key_of(descriptor)
    if key is None:
        raise _error(
            root, path, f"a {descriptor.name} has no name, so [{name}] matches none; write an index, such as [0]"
        )
    names = [getattr(element, key) for element in found.value]
    indexes = [index for index, known in enumerate(names) if known == name]
    if not indexes:
        raise _error(root, path, f"no element of {found.path} has the {key} {name!r}{did_you_mean(name, names)}")
    if len(indexes) > 1:
        raise several(root, path, name, [f"{found.path}[{index}]" for index in indexes])
    return indexes[0]


def _key_of(descriptor: Descriptor) -> str | None:
    return next((key for key in _KEYS if key in descriptor.fields_by_name), None)


def several(root: Message, path: str, name: str, paths: list[str]) -> PathError:
    """Return the error for an ambiguous name. path: the requested path; paths: those of all matches."""
    more = f" and {len(paths) - _MAX_PATHS:,} more" if len(paths) > _MAX_PATHS else ""
    shown = ", ".join(paths[:_MAX_PATHS])
    return _error(root, path, f"{len(paths):,} elements are called {name!r}; choose by index: {shown}{more}")


# --- names

Named = tuple[str, Any, list[str]]
"""A path, the message at it, and the message's names."""
_Stages = list[Callable[[], Iterator[Named]]]


def _by_name(root: Message, kind: str, text: str, path: str) -> tuple[Resolved, str]:
    """Find the message that a text names; return it and the text after its name.

    The main graph is searched first; messages of the same name in other graphs are found by their paths.
    """
    if text.startswith('"'):
        name, end = _quoted(root, path, text, 0)
        ends = {name: end}
    else:
        # A name can contain dots and brackets, so every prefix can be the name; the longest existing one is.
        ends = {text[:end]: end for end in [*(m.start() for m in re.finditer(r"[.\[]", text)), len(text)]}
        ends.pop("", None)
    for stage in _KINDS[kind](root):
        best, found = "", list[Resolved]()
        for where, message, names in stage():
            for known in names:
                if known in ends and len(known) >= len(best):
                    if len(known) > len(best):
                        best, found = known, []
                    found.append(_found(root, where, message))
                    break
        if len(found) > 1:
            raise several(root, path, best, [match.path for match in found])
        if found:
            return found[0], text[ends[best] :]
    wanted = max(ends, key=len, default="")
    known_names = (name for stage in _KINDS[kind](root) for _, _, names in stage() for name in names)
    raise _error(
        root, path, f"there is no {kind} called {wanted!r}{did_you_mean(wanted, known_names)}; {_LISTED_BY[kind]}"
    )


def _found(root: Message, path: str, value: Any) -> Resolved:
    """Resolve a path of fields and indexes that exists."""
    outer, _, last = path.rpartition(".")
    name, _, index = last.rstrip("]").partition("[")
    parent: Any = root
    for step in re.findall(r"[^.\[\]]+", outer):
        parent = parent[int(step)] if step.isdigit() else getattr(parent, step)
    return Resolved(path, value, parent, parent.DESCRIPTOR.fields_by_name.get(name), int(index) if index else None)


def _in_field(root: Message, *fields: str) -> Iterator[Named]:
    """Yield the named messages in fields of a graph, or of the main graph of a model."""
    holder, prefix = (root.graph, "graph.") if isinstance(root, ModelProto) else (root, "")
    for field in fields:
        if field in _names(holder):
            for index, message in enumerate(getattr(holder, field)):
                yield f"{prefix}{field}[{index}]", message, [message.name]


def _anywhere(root: Message, cls: type[Message]) -> Iterator[Named]:
    for path, message in Search(root, [cls]):
        yield path, message, [message.name]  # type: ignore[attr-defined]


def _nodes_by_output(root: Message) -> Iterator[Named]:
    for path, node in Search(root, [NodeProto]):
        yield path, node, list(node.output)


def _constants(root: Message) -> Iterator[Named]:
    """Yield the tensors of Constant nodes; their names are the outputs of the node."""
    for path, node in Search(root, [NodeProto]):
        if node.op_type == "Constant":
            for index, attribute in enumerate(node.attribute):
                if attribute.HasField("t"):
                    yield f"{path}.attribute[{index}].t", attribute.t, list(node.output)


def _functions(root: Message) -> Iterator[Named]:
    for path, function in Search(root, [FunctionProto]):
        yield path, function, [f"{function.domain}.{function.name}", function.name]


_KINDS: dict[str, Callable[[Message], _Stages]] = {
    "node": lambda root: [
        lambda: _in_field(root, "node"),
        lambda: _anywhere(root, NodeProto),
        lambda: _nodes_by_output(root),
    ],
    "tensor": lambda root: [
        lambda: _in_field(root, "initializer"),
        lambda: _anywhere(root, TensorProto),
        lambda: _constants(root),
    ],
    "input": lambda root: [lambda: _in_field(root, "input")],
    "output": lambda root: [lambda: _in_field(root, "output")],
    "value": lambda root: [
        lambda: _in_field(root, "input", "output", "value_info"),
        lambda: _anywhere(root, ValueInfoProto),
    ],
    "function": lambda root: [lambda: _functions(root)],
}
_LISTED_BY = {
    "node": "`onnxwire ls FILE --nodes` lists them",
    "tensor": "`onnxwire ls FILE` lists them",
    "input": "`onnxwire ls FILE --inputs` lists them",
    "output": "`onnxwire ls FILE --outputs` lists them",
    "value": "`onnxwire ls FILE --values` lists them",
    "function": "`onnxwire info FILE` lists them",
}
