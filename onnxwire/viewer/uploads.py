"""Files that were dropped on the page: kept in a folder that goes when the page ends, and that nobody else can read."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onnxwire.bridges.npy import read_npy
from onnxwire.bridges.safetensors import list_tensors
from onnxwire.errors import EditError, Error

LARGEST = 1 << 36
"""Bytes of one dropped file."""
MOST = 256
"""Dropped files of one page."""
_STEP = 1 << 20
_LISTED = 1000  # tensors of a file that are listed
_FORMS = ("npy", "safetensors")


@dataclass(frozen=True, slots=True)
class Upload:
    """A dropped file. name: as the visitor knows it; path: where it is kept; form: "npy" or "safetensors".

    tensors: of a .safetensors file, its tensors by name, each as a text such as float[3, 4].
    """

    id: str
    name: str
    path: str
    form: str
    tensors: dict[str, str]

    @property
    def only_name(self) -> str:
        """The name of the one tensor, "" where there are more."""
        return next(iter(self.tensors)) if len(self.tensors) == 1 else ""

    @contextmanager
    def named(self) -> Iterator[None]:
        """Have errors call the file as the visitor does."""
        try:
            yield
        except (Error, OSError) as error:
            raise EditError(str(error).replace(self.path, self.name)) from None

    def describe(self) -> dict[str, Any]:
        """The row that the page is told: id, name, form, and the first thousand tensors."""
        names = list(self.tensors)[:_LISTED]
        return {
            "id": self.id,
            "name": self.name,
            "form": self.form,
            "tensors": [{"name": name, "type": self.tensors[name]} for name in names],
            "left_off": len(self.tensors) - len(names),
        }


class Uploads:
    """The dropped files of a page."""

    def __init__(self) -> None:
        self._uploads: dict[str, Upload] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()

    def add(self, name: str, length: int, read: Callable[[int], bytes]) -> Upload:
        """Keep a file. name: with its ending; length: in bytes; read: gives the next bytes of it, up to so many.

        Raises EditError for another format, for too many or too large files, and where the disk has no room.
        """
        name = os.path.basename(name.replace("\\", "/"))
        form = os.path.splitext(name)[1][1:].lower()
        if form not in _FORMS:
            raise EditError(f"{name!r} is neither an .npy nor a .safetensors file")
        if len(self._uploads) >= MOST:
            raise EditError(f"{MOST} files were dropped; save, and start `onnxwire view` again for more")
        if length > LARGEST:
            raise EditError(f"{name} has {length:,} bytes; more than {LARGEST:,} are not taken")
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="onnxwire-")  # of mode 0700
        free = shutil.disk_usage(self._folder.name).free
        if length > free:
            raise EditError(
                f"{name} has {length:,} bytes, and {free:,} are free for temporary files; "
                "set TMPDIR to a folder with more room, and start `onnxwire view` again"
            )
        id = secrets.token_urlsafe(12)
        path = os.path.join(self._folder.name, f"{id}.{form}")
        try:
            with open(path, "xb") as file:
                left = length
                while left:
                    piece = read(min(left, _STEP))
                    if not piece:
                        raise EditError(f"{name} did not arrive whole; upload it again")
                    file.write(piece)
                    left -= len(piece)
            upload = Upload(id, name, path, form, {})
            with upload.named():
                if form == "safetensors":
                    listed = list_tensors(path)
                    shown = {
                        key: f"{kind.name.lower()}[{', '.join(map(str, dims))}]" for key, (kind, dims) in listed.items()
                    }
                    upload.tensors.update(shown)
                else:
                    read_npy(path)
        except BaseException as error:
            if os.path.exists(path):
                os.unlink(path)
            if isinstance(error, OSError):
                raise EditError(f"{name} could not be kept: {error.strerror or error}") from None
            raise
        self._uploads[id] = upload
        return upload

    def get(self, id: str) -> Upload:
        """A file that was dropped; EditError where there is not one of that id."""
        if id not in self._uploads:
            raise EditError("this file is not there any more; upload it again")
        return self._uploads[id]

    def close(self) -> None:
        """Remove all of them."""
        self._uploads.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
