"""A tensor's reference to its external data."""

from __future__ import annotations

import sys
from collections import namedtuple

from onnxwire.errors import ExternalDataError, SourceError
from onnxwire.tensor.external_file import ExternalFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from onnxwire.tensor.fields import TensorFields

    class Files(Protocol):
        """A protocol of the files of a model: opens the file at a location."""

        def open(self, location: str) -> ExternalFile:
            """The file at a location; raises ExternalDataError and SourceError."""


_NO_FOLDER = (
    "the model was not read from a file, so that no folder is known to be its own; name one with external_root=, or "
    "give external_data="
)
_LONGEST = 4096  # bytes of a location, and of any path on Linux

_WINDOWS = sys.platform == "win32"


_RESERVED = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {
    f"{d}{n}" for d in ("COM", "LPT") for n in "123456789¹²³"
}


class Reference(namedtuple("Reference", ("location", "offset", "length", "checksum"))):
    """Where a tensor says that its data is: `length` bytes from byte `offset` of a file, or all that come after it.

    location: the file's path from the model's folder; checksum: the SHA-1 of the whole file in hexadecimal digits.
    """

    # Typed here rather than by typing.NamedTuple, which would take as long to import as all the rest.
    __slots__ = ()
    location: str
    offset: int
    length: int | None
    checksum: str | None


def reference_of(tensor: TensorFields) -> Reference:
    """Read a tensor's `external_data`; other keys than those of a Reference mean nothing.

    Raises ExternalDataError where the location is missing, a key is there twice, or the offset or length is not a plain
    decimal number below 2**63. Source: onnx.proto, TensorProto.external_data.
    """
    from onnxwire.tensor.payload_layout import layout_of

    layout = layout_of(tensor)
    values = {entry.key: entry.value for entry in tensor.external_data}
    if layout.is_ambiguous:
        keys = [entry.key for entry in tensor.external_data]
        key = next(key for key in Reference._fields if keys.count(key) > 1)
        raise _error(tensor, f"external_data has {key!r} twice; remove one of the entries")
    if layout.location is None:
        raise _error(tensor, "external_data has no location, so there is no file to read")
    for key, number in (("offset", layout.offset), ("length", layout.length)):
        if number is None and key in values:
            text = values[key]
            shown = repr(text if len(text) <= 40 else text[:40] + "…")
            raise _error(tensor, f"the {key} of its external data, {shown}, is not a plain decimal number below 2**63")
    return Reference(layout.location, layout.offset or 0, layout.length, values.get("checksum"))


def locations_of(tensor: TensorFields) -> list[str]:
    """The locations that a tensor names, unchecked: one, or none, but in what is damaged."""
    return [entry.value for entry in tensor.external_data if entry.key == "location"]


def payload(tensor: TensorFields, files: Files | None) -> tuple[ExternalFile, int, int]:
    """The file that an EXTERNAL tensor's data is in, the byte at which it begins, and its length in bytes.

    files: those of the tensor's document. Nothing is read yet. Raises ExternalDataError for a reference that is wrong,
    refused, or runs past the end of its file, SourceError for a file that can't be opened; both name the tensor.
    """
    reference = reference_of(tensor)
    if files is None:
        location = reference.location
        shown = repr(location if len(location) <= 200 else location[:200] + "…")
        raise _error(tensor, f"its external data at {shown} is not read: {fault_of(location) or _NO_FOLDER}")
    try:
        file = files.open(reference.location)
    except ExternalDataError as error:
        raise _error(tensor, error.reason) from None
    except SourceError as error:
        advice = f"the data of tensor {tensor.name!r} is to be there"
        raise SourceError.from_os_error(error, error.filename, advice) from None
    offset, length = reference.offset, reference.length
    if offset > file.size or (length is not None and length > file.size - offset):
        what = f"{length:,} bytes from byte {offset:,}" if length is not None else f"what begins at byte {offset:,}"
        raise _error(
            tensor,
            f"its external data, {what} of {file.name}, is not all there: the file has {file.size:,} bytes; it was "
            "cut, or belongs to another model",
        )
    return file, offset, file.size - offset if length is None else length


def _error(tensor: TensorFields, reason: str) -> ExternalDataError:
    from onnxwire.tensor.error import tensor_error

    return tensor_error(tensor, reason, ExternalDataError)  # type: ignore[return-value]


def fault_of(location: str) -> str:
    """The reason that forbids a location, whatever is there; "" where nothing does.

    The same on all systems, but for names that mean something else on Windows. Source: docs/ExternalData.md.
    """
    if not location:
        return "it is empty"
    names = location.split("/")
    try:
        encoded = location.encode()
    except UnicodeEncodeError:
        return "it is not valid UTF-8 text"
    if location.startswith("#") or location == "*/_ORT_MEM_ADDR_/*":
        return "it marks data in the memory of the program that wrote it, which is not in any file"
    if len(encoded) > _LONGEST:
        return f"it is longer than {_LONGEST:,} bytes"
    if any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in location):
        return "it holds a NUL or another control character"
    if "\\" in location:
        return "it holds a backslash; folders are separated by / on all systems"
    if location.startswith("/"):
        return "it is absolute; locations begin at the model's folder"
    if location[1:2] == ":" and location[0].isascii() and location[0].isalpha():
        return "it begins with a drive; locations begin at the model's folder"
    if ".." in names:
        return "it holds .., which leads out of the model's folder"
    if names[-1] in ("", "."):
        return "it names a folder, and no file"
    if _WINDOWS:
        for name in names:
            if ":" in name or name.split(".")[0].rstrip(" ").upper() in _RESERVED:
                return f"{name!r} is a device or stream on Windows"
            if name.endswith((".", " ")) and name != ".":
                return f"{name!r} ends as no name does on Windows"
    return ""
