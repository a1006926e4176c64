"""The start page: files that are opened by path or uploaded, and lists of recent files and of a folder's models."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from onnxwire.engine.message import Message
from onnxwire.errors import EditError, PathError, count_text
from onnxwire.io.load import load
from onnxwire.messages import SCHEMA, ModelProto
from onnxwire.viewer.queries import Queries
from onnxwire.viewer.recent_files import RecentFiles
from onnxwire.viewer.tensor_queries import TensorQueries

MAX_UPLOAD_BYTES = 1 << 32
"""Maximum size of an uploaded file; larger files are opened by their path."""
MAX_OPENED = 16
"""Maximum number of open files."""
_CHUNK_BYTES = 1 << 20  # number of bytes of an upload that are read at a time
_MAX_SCANNED_ENTRIES = 10_000  # maximum number of entries of the folder that are examined
_MAX_LISTED_FILES = 100  # maximum number of files in the list of the folder
_MODEL_SUFFIXES = (".onnx", ".pb")  # the ends of the names of listed files


class StartPage:
    """The open files of the start page, up to 16, and the files that it lists. Thread-safe.

    folder: its models are listed, and relative paths start from it; default: the working directory. recent: the list of
    recent files.
    """

    def __init__(self, folder: str | None = None, recent: RecentFiles | None = None) -> None:
        self.folder = _working_directory() if folder is None else folder
        self._recent = RecentFiles() if recent is None else recent
        self._opened: OrderedDict[str, TensorQueries] = OrderedDict()
        self._lock = threading.Lock()
        self._types: dict[str, type[Message]] = {
            name.removeprefix(f"{cls.DESCRIPTOR.file.package}."): cls for name, cls in SCHEMA.messages.items()
        }

    def start(self) -> dict[str, Any]:
        """Describe the page.

        Returns folder, files (as `_list_folder` returns them), recent (paths), types (names of the message types at the
        top level, ModelProto first), limit (the maximum size of an upload in bytes) and free (free bytes for
        temporary files).
        """
        return {
            "folder": self.folder,
            "files": self._list_folder(),
            "recent": self._recent.paths(),
            "types": ["ModelProto", *sorted(name for name in self._types if name != "ModelProto" and "." not in name)],
            "limit": MAX_UPLOAD_BYTES,
            "free": _free_bytes(),
        }

    def open(self, path: str, type: str) -> dict[str, Any]:
        """Open a file by its path; returns `file`, the id of the opened file. type: the type of the message in it.

        Raises EditError for an unknown type, an address on a network, and a path that leads to no regular file, and the
        errors of `load`.
        """
        cls = self._find_class(type)
        if "://" in path:
            raise EditError("this is an address; start `onnxwire view ADDRESS` to show it")
        full_path = os.path.join(self.folder, os.path.expanduser(path.strip()))
        try:
            # Reading a terminal or a device would never end.
            is_regular = stat.S_ISREG(os.stat(full_path).st_mode)
        except ValueError:
            raise EditError("this is not the name of a file") from None
        except OSError as error:
            raise EditError(f"{full_path}: {error.strerror}") from None
        if not is_regular:
            raise EditError(f"{full_path}: this is not a regular file")
        file_id = self._add(load(full_path, cls))
        self._recent.add(os.path.abspath(full_path))
        return {"file": file_id}

    def receive(self, name: str, type: str, length: int, read: Callable[[int], bytes]) -> dict[str, Any]:
        """Open uploaded bytes; returns `file`, the id of the opened file. The bytes are stored in a temporary file.

        name: the name of the uploaded file; type: the type of the message; length: the size in bytes; read: a function
        like the `read` method of a file.
        Raises EditError for an unknown type, a file that is too large or cannot be stored, and an incomplete upload,
        and the errors of `load`.
        """
        cls = self._find_class(type)
        name = os.path.basename(name.replace("\\", "/")) or "file"
        if length > MAX_UPLOAD_BYTES:
            raise EditError(f"{name} has {length:,} bytes, and the limit is {MAX_UPLOAD_BYTES:,}; open it by its path")
        if length > (free_bytes := _free_bytes()):
            raise EditError(
                f"{name} has {count_text(length, 'byte')}, and the free space for temporary files is "
                f"{count_text(free_bytes, 'byte')}; open it by its path"
            )
        try:
            # The system removes the file with the last reference to it, even if the process is killed.
            temporary_file: Any = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        except OSError as error:
            raise EditError(f"{name} could not be stored: {error.strerror or error}") from None
        upload = _Upload(getattr(temporary_file, "file", temporary_file), name)
        remaining_bytes = length
        while remaining_bytes:
            chunk = memoryview(read(min(remaining_bytes, _CHUNK_BYTES)))
            if not chunk:
                raise EditError(f"the upload of {name} is incomplete; upload it again")
            remaining_bytes -= len(chunk)
            while chunk:
                try:
                    chunk = chunk[temporary_file.write(chunk) :]
                except OSError as error:
                    raise EditError(f"{name} could not be stored: {error.strerror or error}") from None
        temporary_file.seek(0)
        return {"file": self._add(load(upload, cls))}

    def forget(self, path: str) -> dict[str, Any]:
        """Remove a path from the recent files; returns the description of the page."""
        self._recent.remove(path)
        return self.start()

    def queries(self, file: str) -> TensorQueries:
        """Return the object that answers queries about an opened file. Raises PathError for an unknown id."""
        with self._lock:
            if file not in self._opened:
                raise PathError("this file is not open; open it again on the start page", file[:40])
            self._opened.move_to_end(file)
            return self._opened[file]

    def close(self) -> None:
        """Release all files."""
        with self._lock:
            self._opened.clear()

    def _find_class(self, name: str) -> type[Message]:
        cls = self._types.get(name)
        if cls is None:
            raise EditError("there is no such message type")
        return cls

    def _add(self, message: Message) -> str:
        """Add the message of an opened file; returns the id of the file.

        If more than 16 files are open, release the least recently used file.
        """
        queries = Queries(message) if isinstance(message, ModelProto) else TensorQueries(message)
        id = secrets.token_urlsafe(12)
        with self._lock:
            self._opened[id] = queries
            # The removed file is not closed, since a thread may be reading it.
            while len(self._opened) > MAX_OPENED:
                self._opened.popitem(last=False)
        return id

    def _list_folder(self) -> list[dict[str, Any]]:
        """Return the name and the size in bytes of each .onnx and .pb file of the folder, the last modified first.

        At most 100 files are listed, from the first 10,000 entries of the folder.
        """
        entries_by_time: list[tuple[float, str, int]] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for _, entry in zip(range(_MAX_SCANNED_ENTRIES), entries, strict=False):
                with contextlib.suppress(OSError):
                    if entry.name.lower().endswith(_MODEL_SUFFIXES) and entry.is_file():
                        status = entry.stat()
                        entries_by_time.append((status.st_mtime, entry.name, status.st_size))
        return [
            {"name": name, "bytes": size} for _, name, size in sorted(entries_by_time, reverse=True)[:_MAX_LISTED_FILES]
        ]


def _working_directory() -> str:
    """Return the working directory, or the home directory if the former was removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.path.expanduser("~")


def _free_bytes() -> int:
    """Return the number of bytes that are free for temporary files, 0 if there is no folder for them."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return 0


class _Upload(io.BufferedReader):
    """A temporary file; errors show the name of the uploaded file."""

    def __init__(self, raw: io.FileIO, name: str) -> None:
        super().__init__(raw)
        self._name = name

    @property
    def name(self) -> str:
        return self._name
