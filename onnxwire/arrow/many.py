"""Tables of many models, in which the column `model` has the name of each row's model."""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

from onnxwire.arrow.arrow_table import to_arrow
from onnxwire.arrow.tables import TABLES
from onnxwire.errors import FieldValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import pyarrow as pa

_ESCAPED_CHARACTER = re.compile(r"[\ud800-\udfff]|\\(?=x5c|x[89a-f][0-9a-f]|ud[89a-f][0-9a-f]{2})")
"""The characters that `model_text` escapes: surrogates, and backslashes that look like the start of an escape."""
# The escapes that `model_text` writes.
_ESCAPE_SEQUENCE = re.compile(r"\\(?:x5c|x[89a-f][0-9a-f]|ud[89a-f][0-9a-f]{2})")


def check_table(table: str) -> None:
    """Raise FieldValueError for an unknown table name."""
    if table not in TABLES:
        raise FieldValueError(f"there is no table {table!r}; the tables are {', '.join(TABLES)}")


def read_table(path: str, table: str) -> pa.Table:
    """Return a pyarrow table of a model with copied strings; its first column is `model`.

    Raises the errors of `to_arrow`.
    """
    import pyarrow as pa

    return add_model_column(path, pa.table(to_arrow(path, table, strings="utf8")))


def make_empty_table(table: str) -> pa.Table:
    """Return a table without rows."""
    import pyarrow as pa

    # The bytes are a model with ir_version 0.
    return add_model_column("", pa.table(to_arrow(b"\x08\x00", table, strings="utf8")).slice(0, 0))


def add_model_column(model: str, table: pa.Table) -> pa.Table:
    """Add the column `model` to a table, and remove the metadata of the table."""
    import pyarrow as pa

    column = pa.repeat(make_array([model_text(model)], "string")[0], table.num_rows)
    return table.replace_schema_metadata(None).add_column(0, pa.field("model", pa.string()), column)


def make_array(values: Sequence[Any], type_name: str) -> pa.Array:
    """Make an array of values, in which None becomes null. type_name: "string", "int64" or "bool".

    `pa.array` would import pandas, if it is installed, which takes half a second of CPU.
    """
    import numpy as np
    import pyarrow as pa

    def pack_bits(flags: list[bool]) -> Any:
        return np.packbits(np.array(flags, np.bool_), bitorder="little")

    is_present = [value is not None for value in values]
    validity = None if all(is_present) else pa.py_buffer(pack_bits(is_present))
    buffers: list[Any]
    if type_name == "string":
        encoded = [b"" if value is None else value.encode() for value in values]
        offsets = array("i", accumulate(map(len, encoded), initial=0))
        buffers = [offsets, b"".join(encoded)]
    elif type_name == "int64":
        buffers = [array("q", [value or 0 for value in values])]
    else:
        buffers = [pack_bits(list(map(bool, values)))]
    return pa.Array.from_buffers(pa.type_for_alias(type_name), len(values), [validity, *map(pa.py_buffer, buffers)])


def model_text(name: str) -> str:
    r"""Return the text of a model's name in the column `model`. Different names have different texts.

    A byte that is not valid UTF-8, which Python stores as a surrogate, is written as \xNN; any other surrogate as
    \uNNNN. A backslash before text that looks like the rest of such an escape is written as \x5c.
    """
    return name if name.isascii() and "\\" not in name else _ESCAPED_CHARACTER.sub(_escape, name)


def model_name(text: str) -> str:
    """Return the name of a model from its text in the column `model`: the inverse of `model_text`."""
    return text if "\\" not in text else _ESCAPE_SEQUENCE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    r"""Return the character of an escape. \x80 to \xff are bytes, which Python stores as U+DC80 to U+DCFF."""
    code = int(match[0].lstrip("\\xu"), 16)
    return chr(code + 0xDC00 if 0x80 <= code < 0x100 else code)


def _escape(match: re.Match[str]) -> str:
    """Return the escape of a character: the inverse of `_unescape`."""
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
