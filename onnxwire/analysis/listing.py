"""Lists the tensors, nodes and values of a model as rows; filters and sorts them, and sums sizes by name prefix."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
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
"""An entry of a list: its `path`, its `name`, and its other properties."""

# A key, a comparison and a value.
_FILTER = re.compile(r"\s*([a-z_]+)\s*(!=|>=|<=|=|>|<|!~|~)\s*(.*?)\s*", re.DOTALL)
_SEPARATOR = re.compile(r"[./]|::")  # between the parts of a name
_BATCH_ROWS = 2_000  # number of rows that are made from columns at a time
_MAX_DEPTH = 60  # maximum number of separators at which a name is split
_MAX_BRANCHES = 100_000  # maximum number of branches of a tree; further names are added to existing branches
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


def tensor_rows(message: Message) -> Iterator[Row]:
    """List every tensor at any depth; payloads are not read.

    Each row has name, type (such as FLOAT), shape, bytes (of the payload), path, and the location of the payload:
    stored (the field that stores it or, for external data, refers to it; "" if none does), file, and offset (in bytes;
    None if the payload is not one run of bytes of a file).
    """
    for path, tensor in find_tensors(message):
        info = describe(tensor, path)
        yield {
            "name": info.name,
            "type": name_of(info.data_type),
            "shape": list(info.shape),
            "bytes": info.nbytes,
            "path": path,
            "stored": _payload_field(tensor),
            "file": info.file,
            "offset": info.offset,
        }


def _payload_field(tensor: TensorProto) -> str:
    """Return the field that stores the elements of a tensor, "external_data" if another file stores them, or ""."""
    if is_external(tensor):
        return "external_data"
    if tensor._payload("raw_data"):
        return "raw_data"
    # Some writers leave an empty raw_data in a tensor whose elements are in another field, or that has none.
    default = "raw_data" if tensor.HasField("raw_data") else ""
    return next((name for name in FIELDS if getattr(tensor, name)), default)


def node_rows(message: Message) -> Iterator[Row]:
    """List every node at any depth: name, type (its operator), domain, input, output and path.

    If the message is a NodeProto, only that node is listed.
    """
    if isinstance(message, ModelProto):
        columns = columns_of(message, _NODES, False)
        if not columns.n_repaired:  # the columns lack the original bytes of strings that were not valid UTF-8
            yield from _rows_of(columns)
            return
    nodes = [("", message)] if isinstance(message, NodeProto) else Search(message, [NodeProto])
    for path, node in nodes:
        yield {
            "name": node.name,
            "type": node.op_type,
            "domain": node.domain,
            "input": list(node.input),
            "output": list(node.output),
            "path": path,
        }


# The columns of the Arrow table `nodes` from which rows are made.
_COLUMNS = ("name", "op_type", "domain", "inputs", "outputs", "graph", "index")
_NODES = TABLES["nodes"]._replace(
    columns=tuple(column for column in TABLES["nodes"].columns if column[0] in _COLUMNS)  # column[0]: the name
)


def _rows_of(columns: Columns) -> Iterator[Row]:
    """Yield the rows of nodes from columns."""
    for start in range(0, len(columns), _BATCH_ROWS):
        values = (columns.to_pylist(name, start, start + _BATCH_ROWS) for name in _COLUMNS)
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
    """List ValueInfoProto messages: name, type (such as float[batch, 3]), role (the field that contains it) and path.

    fields: the fields of the main graph to list. If "value_info" is one of them, the same fields of all other
    graphs and of functions are listed, too.
    """
    roles = set(fields)
    main_prefix = "graph." if isinstance(message, ModelProto) else ""
    for path, value in Search(message, [ValueInfoProto]):
        parent_path, _, last_step = path.rpartition(".")
        role = last_step.partition("[")[0]
        is_of_main_graph = f"{parent_path}." == main_prefix or (not parent_path and not main_prefix)
        if role in roles and (is_of_main_graph or "value_info" in roles):
            yield {"name": value.name, "type": describe_type(value.type), "role": role, "path": path}


def name_matcher(pattern: str, is_regex: bool = False) -> Callable[[str], bool]:
    """Return a function that tests whether a name matches a pattern.

    pattern: a shell pattern for the whole name if it contains *, ? or [, else a substring of the name; with is_regex a
    regular expression for a part of the name. Raises PathError for an invalid regular expression.
    """
    if not is_regex:
        if re.search(r"[*?[]", pattern):
            return partial(fnmatchcase, pat=pattern)
        return lambda name: pattern in name
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise PathError(f"{error}; this is not a regular expression", pattern) from None
    return lambda name: search(name) is not None


def filter_key(text: str) -> str:
    """Return the key of a condition, or "" if the text is not a condition."""
    parts = _FILTER.fullmatch(text)
    return "" if parts is None else parts[1]


def row_filter(text: str) -> Callable[[Row], bool]:
    """Return a function that tests a row: `bytes>=1M`, `type=FLOAT16`, `shape=[64,*]`, `name~bias$`.

    text: a key of the row, one of = != < <= > >= ~ !~, and a value; ~ searches for a regular expression. The key `rank`
    is the number of dimensions of a shape. Numbers can have a suffix K, M, G or T for powers of 1024; None is unequal
    to all numbers, and compared with texts as the empty text. Other values are compared by = and != as shell patterns
    with * and ?, in which brackets are literal and spaces are ignored, and by < <= > >= as texts.
    Raises PathError if the text is not a condition, or its regular expression is invalid. The returned function raises
    PathError if the row lacks the key, and for any comparison but ~ and !~ if the row has a number at the key and the
    condition does not.
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
        matches_value = name_matcher(value, True)
    else:
        # Brackets are literal, unlike in other shell patterns, so that a shape can be written.
        matches_value = partial(fnmatchcase, pat=value.replace(" ", "").replace("[", "[[]"))

    def cell_of(row: Row) -> Any:
        """Return the value of the condition's key."""
        if key == "rank" and "shape" in row:
            return len(row["shape"])
        if key not in row:
            keys = [*row, "rank"] if "shape" in row else [*row]
            raise PathError(f"there is no {key} to compare; the keys are {', '.join(keys)}", text)
        return row[key]

    def is_accepted(row: Row) -> bool:
        """Return whether a row fulfils the condition."""
        cell = cell_of(row)
        if cell is None and number is not None:
            return comparison.startswith("!")
        if isinstance(cell, int | float) and comparison not in ("~", "!~"):
            if number is None:
                raise PathError(f"{key} is a number, but {value!r} is not; write it as 4096, 64K or 2G", text)
            return _COMPARISONS[comparison](cell, number)
        cell_text = "" if cell is None else str(cell)
        if comparison in ("<", "<=", ">", ">="):
            return _COMPARISONS[comparison](cell_text, value)
        is_match = matches_value(cell_text if comparison in ("~", "!~") else cell_text.replace(" ", ""))
        return is_match != comparison.startswith("!")

    return is_accepted


def sort_rows(rows: list[Row], key: str) -> list[Row]:
    """Sort rows by a key: numbers descending, None last; texts so that w2 precedes w10.

    Raises PathError for an unknown key.
    """
    if rows and key not in rows[0]:
        raise PathError(f"there is no {key} to sort by; the keys are {', '.join(rows[0])}")
    if any(isinstance(row[key], int | float) for row in rows):
        return sorted(rows, key=lambda row: math.inf if row[key] is None else -row[key])
    return sorted(rows, key=lambda row: _natural_key(str(row[key])))


def _natural_key(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that compares runs of digits as numbers: (1, count of digits, digits) for a run without its
    leading zeros, (0, 0, text) for other text.

    The digits are not converted to an int, because a name can have more digits than `int` accepts.
    """
    parts = re.split(r"0*([0-9]+)", text)
    return [(1, len(part), part) if i % 2 else (0, 0, part) for i, part in enumerate(parts)]


@dataclass(slots=True)
class Branch:
    """The tensors whose names have the same prefix.

    name: the last part of the prefix, or the last parts after a merge. bytes: the size of all payloads in this branch
    and its descendants. count: the number of tensors in them. children: the branches below, by the next part of names.
    """

    name: str
    bytes: int = 0
    count: int = 0
    children: dict[str, Branch] = field(default_factory=dict)

    def as_dict(self) -> Row:
        """Return the branch and its descendants in JSON form."""
        children = [child.as_dict() for child in self.children.values()]
        return {"name": self.name, "bytes": self.bytes, "count": self.count, "children": children}


def name_tree(rows: Iterable[Row]) -> Branch:
    """Sum the sizes of tensors by prefix of their names, as `du` does for files by folder.

    rows: as `tensor_rows` yields them. Names are split at dots, slashes and double colons, at most 60 times; a tensor
    without a name has its path as name. A prefix with a single continuation is merged with it, unless a tensor has the
    prefix as its name. The tree has at most 100,000 branches; further names are added to existing branches.
    """
    root = Branch("")
    branches: list[tuple[Branch, Branch]] = []  # parent and branch, parents first
    prefix = ""  # prefix of the previous name
    parent = root  # branch of this prefix
    depth = 0  # number of parts of this prefix
    for row in rows:
        name = row["name"] or row["path"]
        # Most names have the prefix of the previous name; that prefix is not split again. If it has _MAX_DEPTH parts,
        # the last part of the name may contain separators.
        end = len(prefix)
        last_part_start = end if depth == _MAX_DEPTH else max(name.rfind("."), name.rfind("/"), name.rfind("::"))
        if end and end == last_part_start and name.startswith(prefix) and _SEPARATOR.match(name, end):
            branch = _get_or_add_child(parent, name[end:], branches)
        else:
            *parts, last_part = _name_parts(name)
            parent = root
            for part in parts:
                parent = _get_or_add_child(parent, part, branches)
            prefix, depth = name[: len(name) - len(last_part)], len(parts)
            # In the next name, the last colon of this prefix can be part of a separator "::", so that name is split.
            if prefix.endswith(":"):
                prefix = ""
            branch = _get_or_add_child(parent, last_part, branches)
        branch.bytes += row["bytes"]
        branch.count += 1
    for parent, branch in reversed(branches):
        parent.bytes += branch.bytes
        parent.count += branch.count
    _merge_single_children(root)
    return root


def _get_or_add_child(branch: Branch, part: str, branches: list[tuple[Branch, Branch]]) -> Branch:
    """Return a child of a branch, and add it if it is absent; if there are too many branches, return the branch."""
    child = branch.children.get(part)
    if child is None:
        if len(branches) == _MAX_BRANCHES:
            return branch
        child = branch.children[part] = Branch(part)
        branches.append((branch, child))
    return child


def _name_parts(name: str) -> list[str]:
    """Return the parts of a name; each part after the first starts with its separator."""
    ends = [match.start() for match in _SEPARATOR.finditer(name) if match.start()][:_MAX_DEPTH]
    return [name[start:end] for start, end in zip([0, *ends], [*ends, len(name)], strict=True)]


def _merge_single_children(root: Branch) -> None:
    """Merge every branch below the root with its child if it has only one child, and no tensor of its own."""
    pending = [root]
    while pending:
        branch = pending.pop()
        for key, child in list(branch.children.items()):
            while len(child.children) == 1:
                (grandchild,) = child.children.values()
                if grandchild.count != child.count:
                    break
                grandchild.name = child.name + grandchild.name
                child = grandchild
            branch.children[key] = child
            pending.append(child)
