"""Tensors as numpy's own files, .npy and .npz, written without reading a payload into memory."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Mapping

from onnxwire.io.atomic_file import AtomicFile, RawWriter
from onnxwire.io.save import refuse_weights
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

_BLOCK = 1 << 20  # bytes, or elements of less than a byte, that are in memory at a time
_NATIVE = "biufc"
_NAME_BYTES, _PART_BYTES, _PREFIX_BYTES = 1000, 250, 150  # of a name in a zip, of one folder in it, of one that is cut
_COMMENT_BYTES = 65535  # of an entry of a zip
_CUT = "%~"  # in no name that is only escaped
_DRIVE = re.compile(r"^([A-Za-z]):")
_WIDEST = 1 << 30  # bytes of strings of one width, in which each has as many as the longest


def to_npy(
    tensor: TensorProto, path: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
) -> int:
    """Write a tensor to an .npy file, whole or not at all; returns its size in bytes.

    progress: called with the bytes written so far and their total. The payload goes from file to file.
    A data type that numpy does not have is written as what `stored_as` says: nothing is rounded, and no file needs
    pickle or another package to be read. Strings become numpy's fixed-width ones.
    Raises TensorError as `numpy` does, for strings that end with a NUL, which numpy would lose, and for such as need
    more than 1 GiB because all have the width of the longest; SaveError and SourceError as `save` does.
    Source: numpy.lib.format, version 1.0.
    """
    entry = _Entry(tensor)
    refuse_weights(tensor, os.fsdecode(path))
    report = None if progress is None else lambda written: progress(written, entry.size)
    with AtomicFile(path, entry.size, report) as target:
        entry.write(target)
    return entry.size


def to_npz(
    tensors: Mapping[str, TensorProto],
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Write tensors to an .npz file, uncompressed, whole or not at all; returns how many bytes their entries have.

    tensors: by the name that each has in the file, escaped by `npz_name`. progress: called with the bytes of the
    entries so far, and their total. As for `to_npy`, but the payloads go through memory, a block at a time, because a
    zip has checksums.
    """
    import zipfile

    entries = {name: _Entry(tensor) for name, tensor in tensors.items()}
    for tensor in tensors.values():
        refuse_weights(tensor, os.fsdecode(path))
    total, done = sum(entry.size for entry in entries.values()), 0
    with AtomicFile(path) as target, zipfile.ZipFile(RawWriter(target), "w", zipfile.ZIP_STORED) as archive:
        for name, entry in entries.items():
            # A fixed time, so that equal tensors make equal files.
            key = npz_name(name)
            info = zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0))
            if _CUT in key:
                info.comment = _escape(name).encode()[:_COMMENT_BYTES]
            with archive.open(info, "w", force_zip64=True) as out:
                for piece in entry.pieces():
                    out.write(piece)
                    done += len(piece)
                    if progress is not None:
                        progress(done, total)
    return total


def npz_name(name: str) -> str:
    """The key that a tensor has in an .npz file; with .npy after it, it is the name of a file in the zip.

    It leads to no file outside the folder that the zip is unpacked to, and no two names share one. What a path can't
    hold, or what leads elsewhere, is percent-escaped: `%`, unprintable characters, backslashes, bytes that are no valid
    UTF-8, a slash at the start or after another slash, `.` and `..`, the colon of a drive, the dot of an ending .npy,
    and dots and spaces at the end of a folder. `urllib.parse.unquote` gives the tensor's name back. A name that is too
    long for a file is cut and ends with `%~` and 32 digits of its SHA-256; the comment of the zip's entry has the whole
    name, or the first 65,535 bytes of it, escaped.
    """
    escaped = _escape(name)
    if len(escaped.encode()) <= _NAME_BYTES and all(len(part.encode()) <= _PART_BYTES for part in escaped.split("/")):
        return escaped
    digest = hashlib.sha256(_bytes_of(name)).hexdigest()[:32]
    return escaped.replace("/", "%2F").encode()[:_PREFIX_BYTES].decode("utf-8", "ignore") + _CUT + digest


def _bytes_of(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a half of a pair, which no bytes stand for
        return name.encode("utf-8", "surrogatepass")


def _escape(name: str) -> str:
    """A name as a relative path with `/` between folders; `urllib.parse.unquote` undoes it."""
    if not name.isprintable() or "%" in name or "\\" in name:
        name = "".join(char if char.isprintable() and char not in "%\\" else _quote(char) for char in name)
    *folders, last = name.split("/")
    if last in (".", ".."):
        last = _quote(last)
    return "".join(map(_escape_folder, folders)) + _escape_part(last)


def _escape_folder(part: str) -> str:
    """The name of a folder and the slash after it, which is escaped where the name is empty."""
    if not part:
        return "%2F"
    # Windows drops dots and spaces at the end.
    sound = part.rstrip(". ")
    return f"{_escape_part(sound)}{_quote(part[len(sound) :])}/"


def _escape_part(part: str) -> str:
    """The name of a file or folder without a drive, or an ending .npy, which numpy and files have for a key's own."""
    if part.lower().endswith(".npy"):
        part = f"{part[:-4]}%2E{part[-3:]}"
    return _DRIVE.sub(r"\1%3A", part)


def _quote(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in _bytes_of(text))


def stored_as(tensor: TensorProto) -> str:
    """The type that elements are written as and how to get them back, where numpy lacks theirs; "" where it has it."""
    storage = Storage(tensor)
    data_type = storage.data_type
    if data_type is STRING or _is_native(data_type):
        return ""
    dtype = _dtype_of(data_type)
    if "INT" in data_type.name:
        return f"numpy has no {data_type.dtype_name}: its values are stored as {dtype}, one byte each"
    back = f".view(ml_dtypes.{data_type.dtype_name}) gives it back"
    return f"numpy has no {data_type.dtype_name}: its bits are stored as {dtype}; {back}"


def _is_native(data_type: DataType) -> bool:
    return data_type.dtype.kind in _NATIVE and data_type.dtype.isbuiltin == 1


def _dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The dtype of the elements in the file."""
    import numpy as np

    if _is_native(data_type):
        return data_type.dtype
    if data_type.name.startswith("INT"):
        return np.dtype(np.int8)
    return np.dtype(np.uint16 if data_type.bits == 16 else np.uint8)


class _Entry:
    """A tensor as it is in a file: a header, and its elements. size: in bytes."""

    def __init__(self, tensor: TensorProto) -> None:
        import numpy as np

        self._storage = storage = Storage(tensor)
        self._strings: Any = None
        if storage.data_type is STRING:
            self._strings, dtype = _fixed_width(storage)
        else:
            dtype = _dtype_of(storage.data_type).newbyteorder("<")
        head = io.BytesIO()
        description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": storage.shape}
        np.lib.format.write_array_header_1_0(head, description)
        self._head = head.getvalue()
        self._dtype = dtype
        self.size: int = len(self._head) + storage.count * dtype.itemsize

    def write(self, target: FileWriter) -> None:
        """Write all of it; what stands in a file goes from there."""
        storage = self._storage
        if self._strings is not None or storage.data_type.is_packed:
            for piece in self.pieces():
                target.write(piece)
            return
        target.write(self._head)
        storage.write(target)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """All of it, a block at a time."""
        import numpy as np

        yield self._head
        storage = self._storage
        data_type = storage.data_type
        if self._strings is not None:
            step = max(_BLOCK // self._dtype.itemsize, 1)
            for start in range(0, len(self._strings), step):
                yield self._strings[start : start + step].astype(self._dtype).tobytes()
        elif data_type.is_packed:
            for start in range(0, storage.count, _BLOCK):
                count = min(_BLOCK, storage.count - start)
                packed = storage.payload(data_type.count_bytes(start), data_type.count_bytes(start + count))
                array = elements_of(packed, count, data_type)
                yield (array.astype(np.int8) if data_type.name.startswith("INT") else array.view(np.uint8)).tobytes()
        elif storage.field in ("raw_data", "external_data"):
            for start in range(0, data_type.count_bytes(storage.count), _BLOCK):
                yield storage.payload(start, min(start + _BLOCK, data_type.count_bytes(storage.count)))
        else:
            # The elements of a typed field are decoded once.
            data = storage.payload() if storage.count else memoryview(b"")
            for start in range(0, len(data), _BLOCK):
                yield data[start : start + _BLOCK]


def _fixed_width(storage: Storage) -> tuple[Any, np.dtype[Any]]:
    """Strings as a flat array of objects, and the dtype in which numpy has them without pickle."""
    import numpy as np

    values = storage.array("str")[0].reshape(-1)
    for value in values:
        if value.endswith("\0"):
            raise tensor_error(
                storage.tensor, "a string ends with a NUL, which .npy would lose; `onnxwire dump` has all"
            )
    dtype = np.dtype(f"<U{max(map(len, values), default=0) or 1}")
    if len(values) * dtype.itemsize > _WIDEST:
        reason = (
            f"its {len(values):,} strings need {len(values) * dtype.itemsize:,} bytes in the width of the longest, "
            f"more than the limit of {_WIDEST:,}; `onnxwire dump` writes each as long as it is"
        )
        raise tensor_error(storage.tensor, reason)
    return values, dtype
