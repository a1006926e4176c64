"""Files uploaded to the page: stored in a private temporary folder, which is removed when the viewer exits."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onnxwire.bridges.npy import read_npy
from onnxwire.bridges.safetensors import list_tensors
from onnxwire.errors import EditError, Error, count_text
from onnxwire.io.atomic_file import free_space

MAX_UPLOAD_BYTES = 1 << 36
"""Maximum size of an uploaded file."""
MAX_UPLOADS = 256
"""Maximum number of uploaded files."""
_CHUNK_BYTES = 1 << 20  # number of bytes of an upload that are read at a time
_MAX_LISTED_TENSORS = 1000  # maximum number of listed tensors of a file
_FILE_FORMATS = ("npy", "safetensors")  # accepted extensions, without the dot


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded file.

    id: a random name. name: the user's file name; path: the path of the stored copy. file_format: "npy" or
    "safetensors". tensors: the types of the tensors in a .safetensors file by name, such as float[3, 4]; empty for
    an .npy file.
    """

    id: str
    name: str
    path: str
    file_format: str
    tensors: dict[str, str]

    @property
    def only_tensor_name(self) -> str:
        """The name of the tensor in a .safetensors file with one tensor; "" for other files."""
        return next(iter(self.tensors)) if len(self.tensors) == 1 else ""

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Convert Error and OSError to EditError, with the user's file name instead of the path."""
        try:
            yield
        except (Error, OSError) as error:
            raise EditError(str(error).replace(self.path, self.name)) from None

    def describe(self) -> dict[str, Any]:
        """Return a description for the page: id, name, form (the file format), tensors (the first 1,000), and left_off.

        left_off is the number of tensors that are not listed.
        """
        names = list(self.tensors)[:_MAX_LISTED_TENSORS]
        return {
            "id": self.id,
            "name": self.name,
            "form": self.file_format,
            "tensors": [{"name": name, "type": self.tensors[name]} for name in names],
            "left_off": len(self.tensors) - len(names),
        }


class Uploads:
    """The uploaded files of a page."""

    def __init__(self) -> None:
        self._uploads: dict[str, Upload] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()

    def add(self, name: str, length: int, read: Callable[[int], bytes]) -> Upload:
        """Store a file.

        name: the file name with its extension; length: the size in bytes; read: a function like the `read` method of a
        file.
        Raises EditError for formats other than .npy and .safetensors, too many or too large files, files that cannot
        be stored, and incomplete or damaged files.
        """
        name = os.path.basename(name.replace("\\", "/"))
        file_format = os.path.splitext(name)[1][1:].lower()
        if file_format not in _FILE_FORMATS:
            raise EditError(f"{name!r} is neither an .npy nor a .safetensors file")
        if len(self._uploads) >= MAX_UPLOADS:
            raise EditError(f"{MAX_UPLOADS} files were uploaded; save, and start `onnxwire view` again for more")
        if length > MAX_UPLOAD_BYTES:
            raise EditError(f"{name} has {count_text(length, 'byte')}; the limit is {MAX_UPLOAD_BYTES:,}")
        with self._lock:
            if self._folder is None:
                try:
                    self._folder = tempfile.TemporaryDirectory(prefix="onnxwire-")  # with mode 0700
                except OSError as error:
                    raise EditError(f"no temporary folder can be made: {error.strerror}; set TMPDIR") from None
        free_bytes = free_space(self._folder.name)
        if free_bytes is not None and length > free_bytes:
            raise EditError(
                f"{name} has {count_text(length, 'byte')}, more than the {free_bytes:,} free for temporary files; "
                "set TMPDIR to a folder with more space, and start `onnxwire view` again"
            )
        id = secrets.token_urlsafe(12)
        path = os.path.join(self._folder.name, f"{id}.{file_format}")
        try:
            with open(path, "xb") as file:
                remaining_bytes = length
                while remaining_bytes:
                    chunk = read(min(remaining_bytes, _CHUNK_BYTES))
                    if not chunk:
                        raise EditError(f"the upload of {name} is incomplete; upload it again")
                    file.write(chunk)
                    remaining_bytes -= len(chunk)
            upload = Upload(id, name, path, file_format, {})
            with upload.translate_errors():
                if file_format == "safetensors":
                    types_by_name = list_tensors(path)
                    type_texts = {
                        key: f"{data_type.name.lower()}[{', '.join(map(str, dims))}]"
                        for key, (data_type, dims) in types_by_name.items()
                    }
                    upload.tensors.update(type_texts)
                else:
                    read_npy(path)
        except BaseException as error:
            if os.path.exists(path):
                os.unlink(path)
            if isinstance(error, OSError):
                raise EditError(f"{name} could not be stored: {error.strerror or error}") from None
            raise
        self._uploads[id] = upload
        return upload

    def get(self, id: str) -> Upload:
        """Return the file of an id. Raises EditError if there is none."""
        if id not in self._uploads:
            raise EditError("this upload no longer exists; upload the file again")
        return self._uploads[id]

    def close(self) -> None:
        """Remove all files."""
        self._uploads.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
