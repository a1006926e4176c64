"""Read numpy's .npy files, write .npy and .npz files. Only typed fields, such as float_data, are read as a whole."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Mapping

from onnxwire.engine.input_file import open_regular
from onnxwire.errors import EditError, SourceError, count_text
from onnxwire.io.atomic_file import AtomicFile, RawWriter
from onnxwire.io.references import reject_own_data_file
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import Storage, elements_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import numpy as np

    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.messages import TensorProto
    from onnxwire.tensor.dtypes import DataType

_BLOCK_BYTES = 1 << 20  # size of a block in memory; for elements smaller than a byte, the number of its elements
_NATIVE_KINDS = "biufc"  # the kinds of numpy's own bool, integer, float and complex dtypes
_MAX_NAME_BYTES = 1000  # maximum size of an escaped name
_MAX_PART_BYTES = 250  # maximum size of each part of an escaped name between slashes
_PREFIX_BYTES = 150  # size to which an escaped name that exceeds these limits is truncated
_MAX_COMMENT_BYTES = 65535  # the limit of the zip format
_TRUNCATION_MARK = "%~"  # cannot occur in an escaped name that is not truncated
_DRIVE = re.compile(r"^([A-Za-z]):")  # at the start of a path on Windows
_MAX_STRING_BYTES = 1 << 30  # maximum size of a string array, in which each string has the width of the longest


def to_npy(
    tensor: TensorProto, path: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
) -> int:
    """Write a tensor to an .npy file atomically. Return the file's size in bytes.

    progress: called with the bytes written so far and their total. raw_data and external data in a file are copied from
    file to file, except elements of less than a byte.
    A data type that numpy lacks is written as the type that `describe_stored_type` names: nothing is rounded, and
    reading the file needs neither pickle nor another package. Strings become numpy's fixed-width strings.
    Raises TensorError for damaged tensors, for strings that end with a NUL, which numpy would drop, and for strings
    that need more than 1 GiB because all have the width of the longest; SaveError and SourceError like `save`.
    Source: numpy.lib.format, version 1.0.
    """
    entry = _Entry(tensor)
    reject_own_data_file(tensor, os.fsdecode(path))
    report = None if progress is None else lambda n_written: progress(n_written, entry.size)
    with AtomicFile(path, entry.size, report) as target:
        entry.write(target)
    return entry.size


def read_npy(path: str) -> np.ndarray[Any, Any]:
    """Return the array of an .npy file, mapped. Raises SourceError, and EditError for a file of another format."""
    import numpy as np

    try:
        os.close(open_regular(path))  # numpy would block on a pipe
        with np.errstate(over="ignore"):  # the sizes of impossible shapes overflow
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise SourceError.from_os_error(error, path) from None
    except MemoryError:
        raise
    except Exception as error:  # errors of zipfile, tokenize and others, which numpy does not catch
        # numpy treats a file without the magic number as a pickle, and its error advises allowing pickles.
        reason = "it does not begin with the magic number of .npy files" if "pickle" in str(error) else error
        raise EditError(f"{path} is not an .npy file of numbers or strings: {reason}") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise EditError(f"{path} is a zip archive, as .npz files are; save one of its arrays as .npy")
    return array


def to_npz(
    tensors: Mapping[str, TensorProto],
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Write tensors to an uncompressed .npz file atomically. Return the size of all entries in bytes.

    tensors: a mapping from names in the file, which `npz_name` escapes, to tensors. progress: called with the bytes of
    the entries written so far, and their total. The format is that of `to_npy`, but raw_data and external data are read
    into memory block by block, because a zip has checksums. Raises the errors of `to_npy`.
    """
    import zipfile

    entries = {name: _Entry(tensor) for name, tensor in tensors.items()}
    for tensor in tensors.values():
        reject_own_data_file(tensor, os.fsdecode(path))
    total, n_written = sum(entry.size for entry in entries.values()), 0
    with AtomicFile(path) as target, zipfile.ZipFile(RawWriter(target), "w", zipfile.ZIP_STORED) as archive:
        for name, entry in entries.items():
            key = npz_name(name)
            # The modification time is fixed, so that files with equal tensors are equal.
            info = zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0))
            if _TRUNCATION_MARK in key:
                info.comment = _escape(name).encode()[:_MAX_COMMENT_BYTES]
            with archive.open(info, "w", force_zip64=True) as out:
                for piece in entry.pieces():
                    out.write(piece)
                    n_written += len(piece)
                    if progress is not None:
                        progress(n_written, total)
    return total


def npz_name(name: str) -> str:
    """Return the key of a tensor in an .npz file. With .npy appended, it is the name of a file in the zip.

    The file is always inside the folder to which the zip is extracted, and different names that are read from a model
    have different keys.
    These characters are percent-escaped: `%`, unprintable characters, backslashes, bytes that are not valid UTF-8, a
    slash at the start or after another slash, the parts `.` and `..`, the colon of a drive, the dot of a trailing .npy,
    and trailing dots and spaces of a folder. `urllib.parse.unquote(key, errors="surrogateescape")` restores the
    tensor's name. A name that is too long for a file is truncated and ends with `%~` and the first 32 hexadecimal
    digits of its SHA-256; the comment of the zip's entry is the escaped full name, up to 65,535 bytes.
    """
    escaped = _escape(name)
    parts_fit = all(len(part.encode()) <= _MAX_PART_BYTES for part in escaped.split("/"))
    if parts_fit and len(escaped.encode()) <= _MAX_NAME_BYTES:
        return escaped
    digest = hashlib.sha256(_bytes_of(name)).hexdigest()[:32]
    return escaped.replace("/", "%2F").encode()[:_PREFIX_BYTES].decode("utf-8", "ignore") + _TRUNCATION_MARK + digest


def _bytes_of(name: str) -> bytes:
    """Return the bytes of a name, which may contain bytes that are not valid UTF-8, as surrogates."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that encodes no byte
        return name.encode("utf-8", "surrogatepass")


def _escape(name: str) -> str:
    """Return a name as a relative path with `/` between folders, escaped as in `npz_name`."""
    if not name.isprintable() or "%" in name or "\\" in name:
        name = "".join(char if char.isprintable() and char not in "%\\" else _quote(char) for char in name)
    *folder_names, file_name = name.split("/")
    if file_name in (".", ".."):
        file_name = _quote(file_name)
    return "".join(map(_escape_folder, folder_names)) + _escape_part(file_name)


def _escape_folder(part: str) -> str:
    """Return the escaped name of a folder and the slash after it, which is escaped if the name is empty."""
    if not part:
        return "%2F"
    # Windows drops dots and spaces at the end.
    stripped = part.rstrip(". ")
    return f"{_escape_part(stripped)}{_quote(part[len(stripped) :])}/"


def _escape_part(part: str) -> str:
    """Escape a drive, and a trailing .npy, which numpy removes from the names of files."""
    if part.lower().endswith(".npy"):
        part = f"{part[:-4]}%2E{part[-3:]}"
    return _DRIVE.sub(r"\1%3A", part)


def _quote(text: str) -> str:
    """Percent-encode every byte of a text."""
    return "".join(f"%{byte:02X}" for byte in _bytes_of(text))


def describe_stored_type(tensor: TensorProto) -> str:
    """Return a sentence on how `to_npy` stores elements of a type that numpy lacks; "" for other types."""
    storage = Storage(tensor)
    data_type = storage.data_type
    if data_type is STRING or _is_native(data_type):
        return ""
    dtype = _dtype_of(data_type)
    if "INT" in data_type.name:
        return f"numpy has no {data_type.dtype_name}: its values are stored as {dtype}, one byte each"
    restore_hint = f".view(ml_dtypes.{data_type.dtype_name}) restores it"
    return f"numpy has no {data_type.dtype_name}: its bits are stored as {dtype}; {restore_hint}"


def _is_native(data_type: DataType) -> bool:
    """Return whether numpy itself has the dtype of a data type."""
    return data_type.dtype.kind in _NATIVE_KINDS and data_type.dtype.isbuiltin == 1


def _dtype_of(data_type: DataType) -> np.dtype[Any]:
    """Return the dtype of the elements in the file."""
    import numpy as np

    if _is_native(data_type):
        return data_type.dtype
    if data_type.name.startswith("INT"):
        return np.dtype(np.int8)
    return np.dtype(np.uint16 if data_type.bits == 16 else np.uint8)


class _Entry:
    """A tensor in .npy format: a header and the elements. size: the size of both together, in bytes."""

    def __init__(self, tensor: TensorProto) -> None:
        import numpy as np

        self._storage = storage = Storage(tensor)
        self._strings: Any = None
        if storage.data_type is STRING:
            self._strings, dtype = _fixed_width(storage)
        else:
            dtype = _dtype_of(storage.data_type).newbyteorder("<")
        header = io.BytesIO()
        description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": storage.shape}
        np.lib.format.write_array_header_1_0(header, description)
        self._header = header.getvalue()
        self._dtype = dtype
        self.size: int = len(self._header) + storage.count * dtype.itemsize

    def write(self, target: FileWriter) -> None:
        """Write header and elements; elements in a file are copied from file to file, as `to_npy` describes."""
        storage = self._storage
        if self._strings is not None or storage.data_type.is_packed:
            for piece in self.pieces():
                target.write(piece)
            return
        target.write(self._header)
        storage.write(target)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield header and elements, block by block."""
        import numpy as np

        yield self._header
        storage = self._storage
        data_type = storage.data_type
        if self._strings is not None:
            step = max(_BLOCK_BYTES // self._dtype.itemsize, 1)
            for start in range(0, len(self._strings), step):
                yield self._strings[start : start + step].astype(self._dtype).tobytes()
        elif data_type.is_packed:
            for start in range(0, storage.count, _BLOCK_BYTES):
                count = min(_BLOCK_BYTES, storage.count - start)
                packed = storage.payload(data_type.count_bytes(start), data_type.count_bytes(start + count))
                array = elements_of(packed, count, data_type)
                yield (array.astype(np.int8) if data_type.name.startswith("INT") else array.view(np.uint8)).tobytes()
        elif storage.field in ("raw_data", "external_data"):
            for start in range(0, data_type.count_bytes(storage.count), _BLOCK_BYTES):
                yield storage.payload(start, min(start + _BLOCK_BYTES, data_type.count_bytes(storage.count)))
        else:
            # The elements of a typed field are decoded once.
            data = storage.payload() if storage.count else memoryview(b"")
            for start in range(0, len(data), _BLOCK_BYTES):
                yield data[start : start + _BLOCK_BYTES]


def _fixed_width(storage: Storage) -> tuple[Any, np.dtype[Any]]:
    """Return strings as a flat array of objects, and the fixed-width dtype that stores them without pickle.

    Raises TensorError for a string that ends with a NUL, and for strings that need too many bytes.
    """
    import numpy as np

    values = storage.array("str")[0].reshape(-1)
    for value in values:
        if value.endswith("\0"):
            raise tensor_error(
                storage.tensor, "a string ends with a NUL, which .npy would drop; `onnxwire dump` prints it"
            )
    dtype = np.dtype(f"<U{max(map(len, values), default=0) or 1}")
    size = len(values) * dtype.itemsize
    if size > _MAX_STRING_BYTES:
        reason = (
            f"in the width of the longest string, {count_text(len(values), 'string')} would need {size:,} bytes, more "
            f"than the limit of {_MAX_STRING_BYTES:,}; `onnxwire dump` writes strings without padding"
        )
        raise tensor_error(storage.tensor, reason)
    return values, dtype
