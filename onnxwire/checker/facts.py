"""The input of rules: the columns of a document as numpy arrays, by message type and field.

facts.NodeProto.op_type            int32, the id of each node's operator name; 0 where it has none
facts.NodeProto.has("name")        bool, whether the field is there
facts.NodeProto.under("GraphProto.node")     bool, whether it stands in that field
facts["TypeProto.Tensor"].elem_type          int64
facts.lists("NodeProto.input").value         int32, an element of all nodes' inputs; .parent is the node's row
facts.text(id)                     str
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnxwire.checker._facts import Facts as Sheets
from onnxwire.checker.operators import operators as standard_operators
from onnxwire.messages import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from onnxwire.checker.operators import Operators
    from onnxwire.engine.document import Document
    from onnxwire.engine.message import Message

    Rows = NDArray[Any]

LATEST_IR_VERSION = max(Version.values())
EMPTY = 0  # the id of the empty string, which an absent one has too

# Flags of a row.
CLASH, MERGED, UNKNOWN = 1, 2, 4
# Traits of a string.
IDENTIFIER, ASCII, UTF8, ANGLE, DOTTED = 1, 2, 4, 8, 16

_OWN = ("length", "parent", "index", "edge", "depth", "flags", "present")
_NUMPY = {"TEXT": "i4", "NUMBER": "i8", "CHILD": "i4"}  # as C has them, whatever the byte order
_UNKNOWN = np.dtype(
    [("start", "i8"), ("value", "i8"), ("row", "i4"), ("number", "i4"), ("sheet", "i2"), ("wire", "i2")],
    align=True,
)


class Finding:
    """Rows that break a rule, and what is said of each; a rule yields these.

    table: the sheet or list; rows: which rows of it; template, columns: the message is the template, filled with what
    each column says of the row. A column is indexed by row number: an array, a dict, a `Texts`, or a function of it.
    """

    __slots__ = ("columns", "rows", "table", "template")

    def __init__(self, table: Table, rows: Rows, template: str, columns: tuple[Any, ...]) -> None:
        self.table = table
        self.rows = rows
        self.template = template
        self.columns = columns

    def forget_rows(self) -> None:
        """Let go of the rows, which somebody else keeps."""
        self.rows = np.zeros(0, np.int64)  # a slice would keep all of them

    def message(self, row: int) -> str:
        """The text of a finding about a row."""
        if not self.columns:
            return self.template
        return self.template.format(*(column(row) if callable(column) else column[row] for column in self.columns))


class Texts:
    """The strings of a column of ids, by row."""

    __slots__ = ("facts", "ids")

    def __init__(self, facts: Facts, ids: Rows) -> None:
        self.facts = facts
        self.ids = ids

    def __getitem__(self, row: int) -> str:
        return self.facts.text(self.ids[row])


class FieldRows(NamedTuple):
    """Rows that stand in one field.

    type_name, owner: the message that has it, by its type and row; field: its name, "" for the root, which stands in
    none. rows, indices: of the elements.
    """

    type_name: str
    owner: int
    field: str
    rows: Rows
    indices: Rows


class Table:
    """Rows that a message about them can be found by: a sheet or a list."""

    facts: Facts
    type_name: str
    n: int

    def at(self, rows: Rows | Iterable[int], template: str, *columns: Any) -> Finding:
        """The findings of a rule here.

        rows: a bool array over all rows, or the numbers of some; template, columns: as of `Finding`.
        """
        array = rows if isinstance(rows, np.ndarray) else np.array(sorted(rows), np.int64)
        if array.dtype == bool:
            array = np.flatnonzero(array)
        return Finding(self, array, template, columns)

    def each(self, messages: dict[int, str]) -> Finding:
        """The same where every row has a message of its own."""
        return self.at(messages, "{0}", messages)

    def texts(self, ids: Rows) -> Texts:
        """The strings of a column of ids."""
        return Texts(self.facts, ids)

    def path(self, row: int) -> str:
        """The path of a row from the root."""
        raise NotImplementedError

    def offset_of(self, rows: Rows | slice) -> Rows:
        """The offsets of rows."""
        raise NotImplementedError

    def by_field(self, rows: Rows) -> Iterator[FieldRows]:
        """Group rows by the field of one message that they stand in."""
        owners, indices, edges = self.places(rows)
        if np.any(owners[1:] < owners[:-1]) or np.any(edges[1:] != edges[:-1]):
            order = np.lexsort((owners, edges))
            rows, owners, indices, edges = rows[order], owners[order], indices[order], edges[order]
        is_first = np.ones(len(rows) + 1, bool)
        is_first[1:-1] = (owners[1:] != owners[:-1]) | (edges[1:] != edges[:-1])
        names = {edge: self.field_at(edge) for edge in np.unique(edges).tolist()}
        for start, stop in pairwise(np.flatnonzero(is_first).tolist()):
            type_name, field = names[int(edges[start])]
            yield FieldRows(type_name, int(owners[start]), field, rows[start:stop], indices[start:stop])

    def places(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """Of rows, those of the messages that they stand in, the indices there, and the numbers of the fields."""
        raise NotImplementedError

    def field_at(self, number: int) -> tuple[str, str]:
        """The type and the name of a field by its number in `places`; two empty strings for what stands in none."""
        raise NotImplementedError

    def depth_of(self, rows: Rows) -> Rows:
        """In how many messages rows stand."""
        raise NotImplementedError


class Sheet(Table):
    """All messages of a type: a row each, a column a field.

    Columns that every sheet has: length (bytes), parent (row in its type's sheet), index (in the repeated field),
    edge (which field it stands in), depth, flags, present (bit = index of the field). Of fields: the number, the id of
    the string, the row of the message (-1: absent), or the count of a repeated field.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name):
            try:
                value = self._own(name) if name in _OWN else self._field(name)
            except KeyError:
                raise AttributeError(f"{self.type_name} has no column {name}") from None
            self.__dict__[name] = value
            return value

    def __init__(self, facts: Facts, name: str) -> None:
        self.facts = facts
        self.type_name = name
        self.n = facts.columns.rows_of(name)
        self.fields = facts.columns.fields_of(name)
        self._has: dict[str, Rows] = {}

    @cached_property
    def rows(self) -> Rows:
        """The numbers of all rows."""
        return np.arange(self.n, dtype=np.int32)

    @cached_property
    def start(self) -> Rows:
        """Offsets of the messages' first bytes."""
        return self.offset_of(slice(None))

    def has(self, field: str) -> Rows:
        """Whether each message has a field."""
        if field not in self._has:
            bit = np.uint32(1 << self.fields.index(field))
            self._has[field] = self.present & bit != 0
        return self._has[field]

    def under(self, *fields: str) -> Rows:
        """Whether each message stands in one of the fields, such as "GraphProto.node"."""
        result: Rows = self.edge == self.facts.edges[fields[0]]
        for field in fields[1:]:
            result = result | (self.edge == self.facts.edges[field])
        return result

    def first(self, field: str) -> Rows:
        """The row of the first element of a repeated field, in its sheet or list; meaningless where there is none."""
        payload, _ = self.facts.columns.field_column(self.type_name, field)
        return np.frombuffer(payload, "i4").reshape(-1, 2)[:, 0]

    def span(self, field: str) -> tuple[Rows, Rows]:
        """Offset and length of a bytes field's value."""
        payload, _ = self.facts.columns.field_column(self.type_name, field)
        both = np.frombuffer(payload, "i8").reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def records(self, field: str) -> tuple[Rows, Rows, Rows, Rows]:
        """Of a repeated field that is payload: offset of the first record, records, elements (-1: unknown), bytes."""
        payload, _ = self.facts.columns.field_column(self.type_name, field)
        four = np.frombuffer(payload, "i8").reshape(-1, 4)
        return four[:, 0], four[:, 1], four[:, 2], four[:, 3]

    def _own(self, name: str) -> Rows:
        payload, dtype = self.facts.columns.own_column(self.type_name, name)
        return np.frombuffer(payload, dtype)

    def _field(self, name: str) -> Rows:
        payload, kind = self.facts.columns.field_column(self.type_name, name)
        if kind in _NUMPY:
            return np.frombuffer(payload, _NUMPY[kind])
        if kind in ("CHILDREN", "LIST"):
            return np.frombuffer(payload, "i4").reshape(-1, 2)[:, 1]
        if kind == "SPAN":
            return self.span(name)[1]
        return self.records(name)[1]

    def path(self, row: int) -> str:
        """The path of a message from the root."""
        return self.facts.path(self.type_name, row)

    def places(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """The parents, indices and edges of messages."""
        return self.parent[rows], self.index[rows], self.edge[rows]

    def field_at(self, number: int) -> tuple[str, str]:
        """The field of an edge."""
        type_name, _, field = self.facts.columns.edges[number].rpartition(".") if number >= 0 else ("", "", "")
        return type_name, field

    def depth_of(self, rows: Rows) -> Rows:
        """How deep messages lie."""
        depth: Rows = self.depth[rows]
        return depth

    def offset_of(self, rows: Rows | slice) -> Rows:
        """Where messages begin."""
        payload, _ = self.facts.columns.own_column(self.type_name, "start")
        return (np.frombuffer(payload, "u8")[rows] - np.uint64(self.facts.columns.base)).astype(np.int64)


class List(Table):
    """The elements of one repeated field, of all messages: parent (row), index, start (offset), value (id, number)."""

    def __init__(self, facts: Facts, name: str) -> None:
        self.facts = facts
        self.type_name = name
        self.owner, _, self.field = name.rpartition(".")
        self.parent = self._column("parent")
        self.index = self._column("index")
        self.start = self._column("start")
        self.value = self._column("value")
        self.n = len(self.value)

    def _column(self, what: str) -> Rows:
        payload, dtype = self.facts.columns.list_column(self.owner, self.field, what)
        return np.frombuffer(payload, dtype)

    def path(self, row: int) -> str:
        """The path of an element from the root."""
        above = self.facts.path(self.owner, int(self.parent[row]))
        return f"{above}.{self.field}[{self.index[row]}]" if above else f"{self.field}[{self.index[row]}]"

    def places(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """The parents and indices of elements, which are all of one field."""
        return self.parent[rows], self.index[rows], np.zeros(len(rows), np.int16)

    def field_at(self, number: int) -> tuple[str, str]:
        """The field."""
        return self.owner, self.field

    def depth_of(self, rows: Rows) -> Rows:
        """How deep elements lie: one deeper than the message that has them."""
        depth: Rows = self.facts[self.owner].depth[self.parent[rows]] + 1
        return depth

    def offset_of(self, rows: Rows | slice) -> Rows:
        """Where elements begin."""
        return self.start[rows]


class UnknownFields(Table):
    """Records of no known field: start (of the tag), value (of a varint), row, number, sheet, wire."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.type_name = "unknown fields"
        records = np.frombuffer(facts.columns.unknown_fields(), _UNKNOWN)
        self.n = len(records)
        self.start, self.value, self.row = records["start"], records["value"], records["row"]
        self.number, self.sheet, self.wire = records["number"], records["sheet"], records["wire"]

    def under(self, name: str) -> Rows:
        """Whether each record stands in a message of the type."""
        result: Rows = self.sheet == self.facts.columns.sheet_names.index(name)
        return result

    def path(self, row: int) -> str:
        """The path of the message that a record stands in."""
        return self.facts.path(self.facts.columns.sheet_names[self.sheet[row]], int(self.row[row]))

    def offset_of(self, rows: Rows | slice) -> Rows:
        """Where the records begin."""
        return self.start[rows]


class Facts:
    """All that rules know of a document. Sheets and derived facts are made when they are first asked for."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Sheet: ...

    else:

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            value = self.__dict__[name] = self[name]
            return value

    def __init__(
        self,
        document: Document,
        root: type[Message],
        ir_version: int | None = None,
        checksums: bool = False,
        is_placed: bool = True,
        home: Document | None = None,
        operators: Operators | None = None,
    ) -> None:
        """Gather them.

        ir_version: the one to judge by, or None for the document's own. checksums: whether rules may read whole files.
        is_placed: whether offsets mean bytes that the caller knows. home: the document whose name says where files
        beside it are, if not `document` itself. operators: what nodes are held against, if not only ONNX's own. Raises
        DecodeError where bytes are damaged.
        """
        self.columns = Sheets(document, root, is_placed)
        self.checksums = checksums
        self.operators = operators or standard_operators()
        self.home = document if home is None else home
        self.root = root.DESCRIPTOR.name
        self.document = document
        self.edges = {name: number for number, name in enumerate(self.columns.edges)}
        self._steps: dict[int, tuple[str, bool]] = {}  # of paths, by edge: name, is repeated
        self._above = ("", -1, "")  # a message that a path was last asked for below: its type, row and path
        self._sheets: dict[str, Sheet] = {}
        self._lists: dict[str, List] = {}
        self._derived: dict[Callable[[Facts], Any], Any] = {}
        self.declared_ir_version = self._declared()
        self.ir_version = self.declared_ir_version if ir_version is None else ir_version

    def forget(self) -> None:
        """Let go of what was derived, and of the documents. Each `Finding` has its own table, and that its columns."""
        for name in self._sheets:
            self.__dict__.pop(name, None)
        for derived in (self._sheets, self._lists, self._derived):
            derived.clear()
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property):
                self.__dict__.pop(name, None)
        del self.document, self.home, self.operators

    def _declared(self) -> int | None:
        """The document's own version; None where it has none, the latest where its type can't have one."""
        sheet = self[self.root]
        if "ir_version" not in sheet.fields:
            return LATEST_IR_VERSION
        version = int(sheet.ir_version[0])
        return version if version > 0 else None

    def __getitem__(self, name: str) -> Sheet:
        """The sheet of a message type, such as "TypeProto.Tensor"."""
        if name not in self._sheets:
            if name not in self.columns.sheet_names:
                raise AttributeError(f"there is no sheet {name}")
            self._sheets[name] = Sheet(self, name)
        return self._sheets[name]

    def lists(self, name: str) -> List:
        """The elements of a repeated field of strings or listed numbers, such as "NodeProto.input"."""
        if name not in self._lists:
            self._lists[name] = List(self, name)
        return self._lists[name]

    @cached_property
    def unknown_fields(self) -> UnknownFields:
        """Records of no known field."""
        return UnknownFields(self)

    @cached_property
    def traits(self) -> Rows:
        """The kinds of characters of each string, by id: IDENTIFIER | ASCII | UTF8 | ANGLE | DOTTED."""
        return np.frombuffer(self.columns.trait_column(), np.uint8)

    def derive(self, make: Callable[[Facts], Any]) -> Any:
        """The result of a function of the facts, which is called once: facts that several rules of a scope share."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return self._derived[make]

    def text(self, id: int) -> str:
        """The string of an id."""
        return self.columns.text(int(id))

    def find(self, text: str) -> int:
        """The id of a string, -1 where the document does not have it."""
        return self.columns.find(text.encode())

    def matching(self, accepts: Callable[[str], bool], ids: Rows) -> Rows:
        """Whether a predicate accepts the strings of a column of ids; it is asked once for each different one."""
        table = np.zeros(self.columns.text_count(), bool)
        used = np.zeros(len(table), bool)
        used[ids] = True
        for id in np.flatnonzero(used).tolist():
            table[id] = accepts(self.text(id))
        return table[ids]

    def join(self, left: tuple[Rows, Rows], right: tuple[Rows, Rows]) -> Rows:
        """For each row of the left, the first row on the right with the same keys, or -1.

        left, right: (numbers of any kind from 0 on, ids of strings), such as (graph, name).
        """
        texts = self.columns.text_count()
        wanted = left[0].astype(np.int64) * texts + left[1]
        there = right[0].astype(np.int64) * texts + right[1]
        if not len(there):
            return np.full(len(wanted), -1, np.int64)
        order = np.argsort(there, kind="stable")
        ordered = there[order]
        at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        return np.where(ordered[at] == wanted, order[at], -1)

    def path(self, name: str, row: int) -> str:
        """The path of a message from the root, such as graph.node[3].attribute[0]; "" for the root."""
        located = self.columns.locate(name, row)
        if located is None:
            return ""
        name, row, edge, index = located
        # What is asked for in turn often has one parent.
        if self._above[:2] != (name, row):
            self._above = (name, row, self._whole_path(name, row))
        above = self._above[2]
        step = self._step(edge, index)
        return f"{above}.{step}" if above else step

    def _whole_path(self, name: str, row: int) -> str:
        steps = []
        located = self.columns.locate(name, row)
        while located is not None:
            name, row, edge, index = located
            steps.append(self._step(edge, index))
            located = self.columns.locate(name, row)
        return ".".join(reversed(steps))

    def _step(self, edge: int, index: int) -> str:
        """The last step of the path of a message."""
        name, is_repeated = self.step(edge)
        return f"{name}[{index}]" if is_repeated else name

    def step(self, edge: int) -> tuple[str, bool]:
        """The field that an edge leads through: its name, and whether it is repeated."""
        if edge not in self._steps:
            sheet, _, name = self.columns.edges[edge].rpartition(".")
            self._steps[edge] = name, self.columns.field_column(sheet, name)[1] == "CHILDREN"
        return self._steps[edge]


def repeats(*keys: Rows) -> Rows:
    """Whether each row has the same keys as an earlier one.

    keys: columns of equal length, such as (parent, name).
    """
    n = len(keys[0])
    order = np.lexsort((np.arange(n), *reversed(keys)))
    again = np.ones(n, bool)
    again[:1] = False
    for key in keys:
        ordered = key[order]
        again[1:] &= ordered[1:] == ordered[:-1]
    result = np.zeros(n, bool)
    result[order] = again
    return result


def lookup(n: int, keys: Rows, values: Rows | Sequence[int], missing: int = -1) -> Rows:
    """An array of n that has values[i] at keys[i] and `missing` elsewhere; of equal keys the last one counts."""
    result = np.full(n, missing, np.int64)
    result[keys] = values
    return result
