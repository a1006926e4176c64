"""A table of one of many models, with the model in each row, as frameworks for many files want it."""

from __future__ import annotations

import re

from onnxwire.arrow.arrow_table import to_arrow
from onnxwire.arrow.tables import TABLES
from onnxwire.errors import FieldValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyarrow as pa

_ESCAPED = re.compile(r"[\ud800-\udfff]|\\(?=x5c|x[89a-f][0-9a-f]|ud[89a-f][0-9a-f]{2})")
"""What `model_text` escapes: surrogates, and backslashes that would be read as the start of an escape."""


def check_table(table: str) -> None:
    """Raise FieldValueError for the name of a table that there is not."""
    if table not in TABLES:
        raise FieldValueError(f"there is no table {table!r}; there are {', '.join(TABLES)}")


def table_of(path: str, table: str) -> pa.Table:
    """A table of a model as pyarrow has it, with copied strings; `model` is the first column. Raises as `to_arrow`."""
    import pyarrow as pa

    return with_model(path, pa.table(to_arrow(path, table, strings="utf8")))


def empty_table(table: str) -> pa.Table:
    """A table without a row."""
    import pyarrow as pa

    return with_model("", pa.table(to_arrow(b"\x08\x00", table, strings="utf8")).slice(0, 0))


def with_model(model: str, table: pa.Table) -> pa.Table:
    """A table with the model in each row, and no metadata."""
    import pyarrow as pa

    column = pa.repeat(pa.scalar(model_text(model), pa.string()), table.num_rows)
    return table.replace_schema_metadata(None).add_column(0, pa.field("model", pa.string()), column)


def model_text(name: str) -> str:
    r"""Return the name of a model as the column `model` has it. Two names never have the same text.

    A byte that is not UTF-8 is written as \xNN, another surrogate as \uNNNN. A backslash that is followed by what
    looks like the rest of such an escape is written as \x5c.
    """
    return name if name.isascii() and "\\" not in name else _ESCAPED.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def plain_text(text: str) -> str:
    """A text as a column can have it: what is not UTF-8, in a path or a name, is written with backslashes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
