"""Make Arrow tables of models."""

from __future__ import annotations

from onnxwire.arrow._columns import Columns
from onnxwire.arrow._export import export_schema, export_stream
from onnxwire.arrow._rows import fill_table
from onnxwire.arrow.tables import TABLES, TableSpec
from onnxwire.engine.message import Message
from onnxwire.errors import FieldTypeError, FieldValueError, count_text
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import CapsuleType

    from onnxwire.io.source import Source

_STRINGS = ("utf8_view", "utf8")
_MIN_LARGE_MESSAGE_BYTES = 1 << 26  # messages of this size or larger are encoded without long payloads
_MIN_OMITTED_PAYLOAD_BYTES = 1 << 10  # shorter payloads are encoded


class ArrowTable:
    """A table of a model with the Arrow PyCapsule interface, which polars, pyarrow, DuckDB and pandas accept.

    A table can be exported any number of times. If its strings point into a document, the document stays open while the
    table or an exported column exists.
    """

    __module__ = "onnxwire"

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __arrow_c_schema__(self) -> CapsuleType:
        """Return the names and types of the columns."""
        return export_schema(self._columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """Return the table as a stream of one record batch.

        The names and types of `requested_schema` are ignored. Raises FieldValueError if it has another number of
        columns than the table, and ValueError if it is neither None nor a capsule "arrow_schema".
        """
        return export_stream(self._columns, requested_schema)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<ArrowTable of {count_text(len(self), 'row')}: {', '.join(self.column_names)}>"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns.names)

    @property
    def repaired_strings(self) -> int:
        """The number of strings that were not valid UTF-8; U+FFFD replaces their invalid bytes."""
        return self._columns.n_repaired

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the columns as lists of str, int, float, lists of those and None. Needs no Arrow library."""
        return {name: self._columns.to_pylist(name) for name in self._columns.names}


def to_arrow(
    source: Source | Message, table: str, *, strings: str = "utf8_view", type: type[Message] = ModelProto
) -> ArrowTable:
    """Make an Arrow table of a model, including its subgraphs, functions and training graphs.

    source: a source for `load`, or a message. type: the class of the root message that is loaded. table: "nodes",
    "attributes", "values", "uses", "tensors", "opsets", "metadata", "functions" or "model".
    strings: "utf8_view" for columns whose views point into the file, which must not change while they are used;
    "utf8" for copies. Strings that are not valid UTF-8 are copied with U+FFFD for invalid bytes, and counted in the
    schema's metadata ("onnxwire.repaired_strings"). Absent singular fields are null.
    A new message, a message of an edited document, or a message that its document stores in several parts is encoded
    first; if it is large, without its large payloads. Then these columns are null: `offset` and `bytes` of nodes,
    `bytes` of the model, `offset` and `length` of inline payloads.
    Raises FieldValueError for an unknown `table` or `strings` and for columns that are too large, FieldTypeError for a
    message that is not of ONNX, DecodeError for damaged bytes, and the errors of `load`.
    """
    if table not in TABLES:
        raise FieldValueError(f"there is no table {table!r}; the tables are {', '.join(TABLES)}")
    if strings not in _STRINGS:
        raise FieldValueError(f"strings is {' or '.join(map(repr, _STRINGS))}, not {strings!r}")
    if isinstance(source, Message):
        return ArrowTable(columns_of(source, TABLES[table], strings == "utf8"))
    from onnxwire.io.load import load

    # The document is not closed here: the columns own it.
    return ArrowTable(columns_of(load(source, type), TABLES[table], strings == "utf8"))


def columns_of(message: Message, spec: TableSpec, copies: bool) -> Columns:
    """Return the columns of a table of a message. copies: whether to copy strings.

    Raises FieldTypeError for a message that is not of ONNX, and the errors of `fill_table`.
    """
    from onnxwire.engine.document import Document

    document = message._document
    cls = message.__class__
    if cls.DESCRIPTOR.full_name.partition(".")[0] != "onnx":
        raise FieldTypeError(f"{cls.DESCRIPTOR.full_name} is not an ONNX message, so it has no tables")
    if not document.is_edited and (span := message._span) is not None and document.root is not None:
        return fill_table(document, cls, *span, spec, copies)
    data, sizes = _encode_without_payloads(message)
    encoded_document = Document(data, document.name)
    encoded_document.set_root(cls)
    return fill_table(encoded_document, cls, 0, len(data), spec, copies, has_file_offsets=False, sizes=sizes)


def _encode_without_payloads(message: Message) -> tuple[bytes, dict[int, int]]:
    """Encode a message; if it is large, without raw_data of 1 KiB or more.

    Returns the encoding, and the size of each omitted payload in bytes by the index of its tensor in document order.
    """
    from onnxwire.io.tensor_list import find_tensors

    if message.ByteSize() < _MIN_LARGE_MESSAGE_BYTES:
        return message.SerializeToString(), {}
    copy = message.__class__()
    copy.CopyFrom(message)
    sizes = {}
    for index, (_, tensor) in enumerate(find_tensors(copy)):
        payload = tensor._payload("raw_data")
        if payload is not None and len(payload) >= _MIN_OMITTED_PAYLOAD_BYTES:
            sizes[index] = len(payload)
            tensor.ClearField("raw_data")
    return copy.SerializeToString(), sizes
