"""From a model to a table that libraries for Arrow take."""

from __future__ import annotations

from onnxwire.arrow._columns import Columns
from onnxwire.arrow._export import export_schema, export_stream
from onnxwire.arrow._rows import fill_table
from onnxwire.arrow.tables import TABLES, TableSpec
from onnxwire.engine.message import Message
from onnxwire.errors import FieldTypeError, FieldValueError
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import CapsuleType

    from onnxwire.io.source import Source

_STRINGS = ("utf8_view", "utf8")
_LARGE = 1 << 26  # bytes of a message that is not encoded as it is
_LEAST = 1 << 10  # bytes of a payload that is left out where a message has to be encoded


class ArrowTable:
    """A table of a model, with the Arrow PyCapsule interface: polars, pyarrow, DuckDB and pandas take it as it is.

    It may be taken any number of times. As long as it, or a column that was taken from it, is there, the document that
    its strings are in stays open.
    """

    __module__ = "onnxwire"

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __arrow_c_schema__(self) -> CapsuleType:
        """The names and types of the columns."""
        return export_schema(self._columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """The table as a stream of one record batch; a requested schema must have as many columns."""
        return export_stream(self._columns, requested_schema)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<ArrowTable of {len(self):,} rows: {', '.join(self.column_names)}>"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns.names)

    @property
    def repaired_strings(self) -> int:
        """How many strings were not valid UTF-8 and have U+FFFD for what is not."""
        return self._columns.repaired

    def to_pydict(self) -> dict[str, list[Any]]:
        """The columns as lists of str, int, float, lists of those and None, made without any library for Arrow."""
        return {name: self._columns.to_pylist(name) for name in self._columns.names}


def to_arrow(
    source: Source | Message, table: str, *, strings: str = "utf8_view", type: type[Message] = ModelProto
) -> ArrowTable:
    """Make an Arrow table of a model, with what is in subgraphs, functions and training graphs.

    source: what `load` takes, or a message. type: the class of the root message of what is loaded. table: "nodes",
    "attributes", "values", "uses", "tensors", "opsets", "metadata", "functions" or "model".
    strings: "utf8_view" for columns whose views point into the file, which must stay as it is as long as they are
    used; "utf8" for copies. Strings that are not valid UTF-8 are copied, with U+FFFD in place of what is wrong, and
    counted in the schema's metadata ("onnxwire.repaired_strings"). What is absent is null.
    Of a message that was edited, what it has is encoded anew but for payloads, and offsets are null.
    Raises FieldValueError for a table that there is not, and else what `load` raises, and DecodeError for damaged
    bytes on the way.
    """
    if table not in TABLES:
        raise FieldValueError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    if strings not in _STRINGS:
        raise FieldValueError(f"strings are {' or '.join(map(repr, _STRINGS))}, not {strings!r}")
    if isinstance(source, Message):
        return ArrowTable(columns_of(source, TABLES[table], strings == "utf8"))
    from onnxwire.io.load import load

    # Not closed here: the columns keep the document, and it goes with them.
    return ArrowTable(columns_of(load(source, type), TABLES[table], strings == "utf8"))


def columns_of(message: Message, spec: TableSpec, copies: bool) -> Columns:
    """The columns of a table of a message."""
    from onnxwire.engine.document import Document

    document = message._document
    cls = message.__class__
    if cls.DESCRIPTOR.full_name.partition(".")[0] != "onnx":
        raise FieldTypeError(f"a {cls.DESCRIPTOR.full_name} is not a message of ONNX, which tables are made of")
    if not document.is_edited and (span := message._span) is not None and document.root is not None:
        return fill_table(document, cls, *span, spec, copies)
    data, sizes = _encoded(message)
    held = Document(data, document.name)
    held.set_root(cls)
    return fill_table(held, cls, 0, len(data), spec, copies, False, sizes)


def _encoded(message: Message) -> tuple[bytes, dict[int, int]]:
    """A message as it would be saved; a large one without payloads, whose sizes are given by order of tensors."""
    from onnxwire.io.tensor_list import find_tensors

    if message.ByteSize() < _LARGE:
        return message.SerializeToString(), {}
    copy = message.__class__()
    copy.CopyFrom(message)
    sizes = {}
    for number, (_, tensor) in enumerate(find_tensors(copy)):
        payload = tensor._payload("raw_data")
        if payload is not None and len(payload) >= _LEAST:
            sizes[number] = len(payload)
            tensor.ClearField("raw_data")
    return copy.SerializeToString(), sizes
