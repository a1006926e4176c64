"""The paths of files that the start page opened, stored for the next start."""

from __future__ import annotations

import contextlib
import json
import os

from onnxwire.errors import Error
from onnxwire.io.atomic_file import AtomicFile

MAX_RECENT_FILES = 20  # maximum length of the list
_MAX_BYTES = 1 << 18  # size in bytes; a larger stored list is ignored
_MAX_PATH_CHARS = 4096  # longer paths are ignored


def state_path() -> str:
    """Return the path of the list: onnxwire/recent.json in $XDG_STATE_HOME, %LOCALAPPDATA% or ~/.local/state.

    The first of the variables that is set and not empty is used.
    """
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA") or os.path.join("~", ".local", "state")
    return os.path.join(os.path.expanduser(base), "onnxwire", "recent.json")


class RecentFiles:
    """The list of recent files, the latest first. Failures to read or write it are ignored.

    path: the path of the JSON file with the list; default: `state_path()`.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = state_path() if path is None else path

    def paths(self) -> list[str]:
        """Return the paths, the latest first."""
        try:
            with open(self._path, "rb") as file:
                data = file.read(_MAX_BYTES + 1)
            entries = json.loads(data) if len(data) <= _MAX_BYTES else []
        except (OSError, ValueError, RecursionError):
            return []
        if not isinstance(entries, list):
            return []
        return [path for path in entries if isinstance(path, str) and len(path) <= _MAX_PATH_CHARS][:MAX_RECENT_FILES]

    def add(self, path: str) -> None:
        """Add a path at the front of the list, or move it there. A new path replaces the last path of a full list."""
        self._write([path, *(other_path for other_path in self.paths() if other_path != path)][:MAX_RECENT_FILES])

    def remove(self, path: str) -> None:
        """Remove a path, if the list contains it."""
        self._write([other_path for other_path in self.paths() if other_path != path])

    def _write(self, paths: list[str]) -> None:
        with contextlib.suppress(Error, OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with AtomicFile(self._path) as file:
                file.write(json.dumps(paths).encode())
