"""Read a tensor's reference to its external data, find the data in its file, and check locations."""

from __future__ import annotations

import sys
from collections import namedtuple

from onnxwire.errors import ExternalDataError, SourceError, count_text
from onnxwire.tensor.external_file import ExternalFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from onnxwire.tensor.fields import TensorFields

    class Files(Protocol):
        """The protocol of the external data files of a model."""

        def open(self, location: str) -> ExternalFile:
            """Return the open file of a location. Raises ExternalDataError and SourceError."""


_NO_FOLDER_REASON = "the model was not read from a file, so it has no folder; pass external_root= or external_data="
_MAX_LOCATION_BYTES = 4096  # PATH_MAX of Linux

_IS_WINDOWS = sys.platform == "win32"
# Windows also reserves names with superscript digits.
_WINDOWS_DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {
    f"{device}{number}" for device in ("COM", "LPT") for number in "123456789¹²³"
}


class Reference(namedtuple("Reference", ("location", "offset", "length", "checksum"))):
    """A tensor's reference to its data: `length` bytes from `offset` of a file; all further bytes if length is None.

    location: the file's path relative to the model's folder; checksum: the SHA-1 of the complete file as hexadecimal
    digits.
    """

    # Plain annotations: importing typing.NamedTuple would take as long as importing this module.
    __slots__ = ()
    location: str
    offset: int
    length: int | None
    checksum: str | None


def reference_of(tensor: TensorFields) -> Reference:
    """Parse a tensor's `external_data`. Ignores keys that are not fields of a Reference.

    Raises ExternalDataError if the location is missing, a key is repeated, or the offset or length is not a plain
    decimal number below 2**63. Source: onnx.proto, TensorProto.external_data.
    """
    from onnxwire.tensor.payload_layout import layout_of

    layout = layout_of(tensor)
    values = {entry.key: entry.value for entry in tensor.external_data}
    if layout.is_ambiguous:
        keys = [entry.key for entry in tensor.external_data]
        key = next(key for key in Reference._fields if keys.count(key) > 1)
        raise _error(tensor, f"external_data contains {key!r} more than once; keep only one of the entries")
    if layout.location is None:
        raise _error(tensor, "external_data contains no location, so there is no file to read")
    for key, number in (("offset", layout.offset), ("length", layout.length)):
        if number is None and key in values:
            text = values[key]
            quoted = repr(text if len(text) <= 40 else text[:40] + "…")
            raise _error(tensor, f"the {key} of its external data, {quoted}, is not a plain decimal number below 2**63")
    return Reference(layout.location, layout.offset or 0, layout.length, values.get("checksum"))


def locations_of(tensor: TensorFields) -> list[str]:
    """Return the locations of a tensor without checks: at most one, unless the tensor is damaged."""
    return [entry.value for entry in tensor.external_data if entry.key == "location"]


def locate_payload(tensor: TensorFields, files: Files | None) -> tuple[ExternalFile, int, int]:
    """Return the file that contains an EXTERNAL tensor's data, and the data's offset and length in bytes.

    files: the external files of the tensor's document, or None if they can't be read. No data is read. Raises
    ExternalDataError if `files` is None, and for a reference that is invalid, not allowed, or runs past the end of the
    file; SourceError for a file that can't be opened. Both name the tensor.
    """
    reference = reference_of(tensor)
    if files is None:
        location = reference.location
        quoted = repr(location if len(location) <= 200 else location[:200] + "…")
        raise _error(tensor, f"its external data at {quoted} is not read: {fault_of(location) or _NO_FOLDER_REASON}")
    try:
        file = files.open(reference.location)
    except ExternalDataError as error:
        raise _error(tensor, error.reason) from None
    except SourceError as error:
        context = f"tensor {tensor.name!r} refers to it"
        raise SourceError.from_os_error(error, error.filename, context) from None
    offset, length = reference.offset, reference.length
    if offset > file.size or (length is not None and length > file.size - offset):
        extent = "all bytes" if length is None else count_text(length, "byte")
        raise _error(
            tensor,
            f"its external data, {extent} from byte {offset:,} of {file.name}, runs past the end of the file, which "
            f"has {count_text(file.size, 'byte')}; the file was truncated, or belongs to another model",
        )
    return file, offset, file.size - offset if length is None else length


def _error(tensor: TensorFields, reason: str) -> ExternalDataError:
    from onnxwire.tensor.error import tensor_error

    return tensor_error(tensor, reason, ExternalDataError)  # type: ignore[return-value]


def fault_of(location: str) -> str:
    """Return the reason why a location is never allowed; "" if it may be allowed.

    The result is the same on all systems, except for special names of Windows. Source: ONNX's docs/ExternalData.md.
    """
    if not location:
        return "the location is empty"
    names = location.split("/")
    try:
        encoded = location.encode()
    except UnicodeEncodeError:
        return "the location is not valid UTF-8 text"
    if location.startswith("#") or location == "*/_ORT_MEM_ADDR_/*":
        return "the location denotes data in the memory of the program that wrote the model, not in a file"
    if len(encoded) > _MAX_LOCATION_BYTES:
        return f"the location is longer than {_MAX_LOCATION_BYTES:,} bytes"
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in location):
        return "the location contains a NUL or another control character"
    if "\\" in location:
        return "the location contains a backslash; folders are separated by / on all systems"
    if location.startswith("/"):
        return "the location is absolute; locations are relative to the model's folder"
    if location[1:2] == ":" and location[0].isascii() and location[0].isalpha():
        return "the location begins with a drive; locations are relative to the model's folder"
    if ".." in names:
        return "the location contains .., which may lead out of the model's folder"
    if names[-1] in ("", "."):
        return "the location names a folder, not a file"
    return windows_fault_of(location) if _IS_WINDOWS else ""


def windows_fault_of(location: str) -> str:
    """Return the reason why a location is not allowed on Windows, in addition to `fault_of`; "" if there is none."""
    for name in location.split("/"):
        if ":" in name or name.split(".")[0].rstrip(" ").upper() in _WINDOWS_DEVICES:
            return f"{name!r} is a device or stream on Windows"
        if name.endswith((".", " ")) and name != ".":
            return f"{name!r} ends with a dot or space, which is not allowed on Windows"
    return ""
