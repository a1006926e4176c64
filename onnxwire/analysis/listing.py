"""Lists of what a model has in it, as rows to choose from and to sort, and sizes by prefix of the names."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any

from onnxwire.analysis.describe import describe_type
from onnxwire.analysis.sizes import parse_size
from onnxwire.arrow._columns import Columns
from onnxwire.arrow.arrow_table import columns_of
from onnxwire.arrow.tables import TABLES
from onnxwire.engine.message import Message
from onnxwire.engine.search import Search
from onnxwire.errors import PathError
from onnxwire.io.tensor_list import describe, find_tensors, is_external
from onnxwire.messages import ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnxwire.tensor.dtypes import FIELDS, name_of

Row = dict[str, Any]
"""One thing of a list: its `path`, its `name`, and what else there is to tell."""

_FILTER = re.compile(r"\s*([a-z_]+)\s*(!=|>=|<=|=|>|<|!~|~)\s*(.*?)\s*", re.DOTALL)
_SEPARATOR = re.compile(r"[./]|::")
_BATCH = 2_000  # rows that are made of columns at once
_DEEPEST = 60  # parts of a name that are told apart
_MOST_BRANCHES = 100_000  # of a tree; names beyond them are summed in the branches that there are
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


def tensor_rows(message: Message) -> Iterator[Row]:
    """List every tensor, wherever it is; payloads are stepped over.

    Each row has name, type (such as FLOAT), shape, bytes (of the payload), path, and where the payload is: stored (the
    field that has it, "external_data", or "" where it is empty), file, and offset (in bytes), None where it is not one
    run of bytes of a file.
    """
    for path, tensor in find_tensors(message):
        info = describe(tensor, path)
        yield {
            "name": info.name,
            "type": name_of(info.data_type),
            "shape": list(info.shape),
            "bytes": info.nbytes,
            "path": path,
            "stored": _stored(tensor),
            "file": info.file,
            "offset": info.offset,
        }


def _stored(tensor: TensorProto) -> str:
    if is_external(tensor):
        return "external_data"
    if tensor.HasField("raw_data"):
        return "raw_data"
    return next((name for name in FIELDS if getattr(tensor, name)), "")


def node_rows(message: Message) -> Iterator[Row]:
    """List every node, those of subgraphs and functions included: name, type (its operator), domain, input, output."""
    if isinstance(message, ModelProto):
        columns = columns_of(message, _NODES, False)
        if not columns.repaired:
            yield from _rows_of(columns)
            return
    found = [("", message)] if isinstance(message, NodeProto) else Search(message, [NodeProto])
    for path, node in found:
        yield {
            "name": node.name,
            "type": node.op_type,
            "domain": node.domain,
            "input": list(node.input),
            "output": list(node.output),
            "path": path,
        }


_COLUMNS = ("name", "op_type", "domain", "inputs", "outputs", "graph", "index")
_NODES = TABLES["nodes"]._replace(columns=tuple(c for c in TABLES["nodes"].columns if c[0] in _COLUMNS))


def _rows_of(columns: Columns) -> Iterator[Row]:
    """The rows of nodes, from columns."""
    for start in range(0, len(columns), _BATCH):
        values = (columns.to_pylist(name, start, start + _BATCH) for name in _COLUMNS)
        for name, op_type, domain, inputs, outputs, graph, index in zip(*values, strict=True):
            yield {
                "name": name or "",
                "type": op_type or "",
                "domain": domain or "",
                "input": inputs,
                "output": outputs,
                "path": f"{graph}.node[{index}]",
            }


def value_rows(message: Message, fields: Iterable[str] = ("input", "output", "value_info")) -> Iterator[Row]:
    """List the values that have a type written down: name, type (such as float[batch, 3]), role and path.

    fields: those of a model's graph that are listed; with "value_info" the values of subgraphs and functions, too.
    """
    wanted = set(fields)
    main = "graph." if isinstance(message, ModelProto) else ""
    for path, value in Search(message, [ValueInfoProto]):
        outer, _, last = path.rpartition(".")
        role = last.partition("[")[0]
        is_main = f"{outer}." == main or (not outer and not main)
        if role in wanted and (is_main or "value_info" in wanted):
            yield {"name": value.name, "type": describe_type(value.type), "role": role, "path": path}


def name_matcher(pattern: str, is_regex: bool = False) -> Callable[[str], bool]:
    """A test whether a name matches a pattern.

    pattern: a shell's pattern for the whole name where it has one of *, ? or [ in it, else a part of the name; with
    is_regex a regular expression that is found somewhere in it. Raises PathError for what is not a regular expression.
    """
    if not is_regex and not re.search(r"[*?[]", pattern):
        return lambda name: pattern in name
    try:
        return _search_for(pattern) if is_regex else _search_for(translate(pattern))
    except re.error as error:
        raise PathError(f"{error}; this is not a regular expression", pattern) from None


def _search_for(pattern: str) -> Callable[[str], bool]:
    search = re.compile(pattern).search
    return lambda name: search(name) is not None


def filter_key(text: str) -> str:
    """The key that a condition is about; "" for what is not a condition."""
    parts = _FILTER.fullmatch(text)
    return "" if parts is None else parts[1]


def row_filter(text: str) -> Callable[[Row], bool]:
    """A test whether a row fulfils a condition, such as `bytes>=1M`, `type=FLOAT16`, `shape=[64,*]`, `name~bias$`.

    text: a key of the row, one of = != < <= > >= ~ !~, and a value; ~ is a regular expression that is found in it.
    Numbers may have K, M, G or T after them, for powers of 1024; other values are compared as a shell's pattern.
    Raises PathError for what is not a condition; what is made of it does so for a key that rows do not have.
    """
    parts = _FILTER.fullmatch(text)
    if parts is None:
        raise PathError("this is not a condition; write a key, a comparison and a value, such as bytes>=1M", text)
    key, comparison, value = parts.groups()
    size = parse_size(value)
    number: float | None
    try:
        number = float(value) if size is None else size
    except ValueError:
        number = None
    if comparison in ("~", "!~"):
        matches = name_matcher(value, True)
    else:
        # A shape is in brackets, which do not make a set of characters here.
        matches = _search_for(translate(value.replace(" ", "").replace("[", "[[]")))

    def get(row: Row) -> Any:
        if key == "rank" and "shape" in row:
            return len(row["shape"])
        if key not in row:
            known = [*row, "rank"] if "shape" in row else [*row]
            raise PathError(f"there is no {key} to compare; there are {', '.join(known)}", text)
        return row[key]

    def fulfils(row: Row) -> bool:
        found = get(row)
        if found is None and number is not None:
            return comparison == "!="
        if isinstance(found, int | float) and comparison not in ("~", "!~"):
            if number is None:
                raise PathError(f"{key} is a number, and {value!r} is not one; write it as 4096, 64K or 2G", text)
            return _COMPARE[comparison](found, number)
        shown = "" if found is None else str(found)
        if comparison in ("<", "<=", ">", ">="):
            return _COMPARE[comparison](shown, value)
        is_match = matches(shown if comparison in ("~", "!~") else shown.replace(" ", ""))
        return is_match != comparison.startswith("!")

    return fulfils


def sort_rows(rows: list[Row], key: str) -> list[Row]:
    """Sort rows by a key: numbers from the largest, names so that w2 comes before w10. Raises PathError for no key."""
    if rows and key not in rows[0]:
        raise PathError(f"there is no {key} to sort by; there are {', '.join(rows[0])}")
    if any(isinstance(row[key], int | float) for row in rows):
        return sorted(rows, key=lambda row: math.inf if row[key] is None else -row[key])
    return sorted(rows, key=lambda row: _natural(str(row[key])))


def _natural(text: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if i % 2 else (0, 0, part) for i, part in enumerate(parts)]


@dataclass(slots=True)
class Branch:
    """The tensors among some whose names have the same prefix.

    name: the part of the prefix that is this branch's own. bytes, count: of the payloads, and of the tensors below.
    children: by the next part of the name.
    """

    name: str
    bytes: int = 0
    count: int = 0
    children: dict[str, Branch] = field(default_factory=dict)

    def as_dict(self) -> Row:
        """The branch and those below it, as JSON has them."""
        children = [child.as_dict() for child in self.children.values()]
        return {"name": self.name, "bytes": self.bytes, "count": self.count, "children": children}


def name_tree(rows: Iterable[Row]) -> Branch:
    """Sum the sizes of tensors by prefix of their names, as `du` does those of files by folder.

    rows: as `tensor_rows` gives them. Names are parted at dots, slashes and double colons; a tensor without a name goes
    by its path. A prefix that has only one continuation is shown as one with it. The tree has 100,000 branches at
    most: what comes after them is summed in those that there are.
    """
    root = Branch("")
    made: list[tuple[Branch, Branch]] = []  # each after the branch that it is of
    before, home, depth = "", root, 0  # what the last name had before its last part
    for row in rows:
        name = row["name"] or row["path"]
        # Mostly it has the same before its last part, which is not parted again.
        end = len(before)
        last_separator = end if depth == _DEEPEST else max(name.rfind("."), name.rfind("/"), name.rfind("::"))
        if end and end == last_separator and name.startswith(before) and _SEPARATOR.match(name, end):
            branch = _child(home, name[end:], made)
        else:
            *outer, last = _parts(name)
            home = root
            for part in outer:
                home = _child(home, part, made)
            before, depth = name[: len(name) - len(last)], len(outer)
            if before.endswith(":"):  # the next may be parted elsewhere
                before = ""
            branch = _child(home, last, made)
        branch.bytes += row["bytes"]
        branch.count += 1
    for home, branch in reversed(made):
        home.bytes += branch.bytes
        home.count += branch.count
    _join(root)
    return root


def _child(branch: Branch, part: str, made: list[tuple[Branch, Branch]]) -> Branch:
    """The branch below one, made where it is not there; where there are too many, that one itself."""
    child = branch.children.get(part)
    if child is None:
        if len(made) == _MOST_BRANCHES:
            return branch
        child = branch.children[part] = Branch(part)
        made.append((branch, child))
    return child


def _parts(name: str) -> list[str]:
    """The parts of a name, each but the first with the separator before it."""
    ends = [match.start() for match in _SEPARATOR.finditer(name) if match.start()][:_DEEPEST]
    return [name[start:end] for start, end in zip([0, *ends], [*ends, len(name)], strict=True)]


def _join(root: Branch) -> None:
    """Make one of every branch that has one child and no tensor of its own."""
    waiting = [root]
    while waiting:
        branch = waiting.pop()
        for key, child in list(branch.children.items()):
            while len(child.children) == 1:
                (only,) = child.children.values()
                if only.count != child.count:
                    break
                only.name = child.name + only.name
                child = only
            branch.children[key] = child
            waiting.append(child)
