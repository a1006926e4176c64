"""Find files of Hugging Face repositories in the local cache of the huggingface_hub package, and the user's token.

The documentation of huggingface_hub describes the paths and environment variables. Importing the package to determine
them would take longer than opening a model.
"""

from __future__ import annotations

import errno
import os
import re

from onnxwire.errors import Error
from onnxwire.io.external_files import AllowedFolders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.io.remote.hub_address import HubFile

COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_TOKEN_BYTES = 4096
_TRUE_VALUES = ("1", "ON", "YES", "TRUE")


def hub_token() -> str:
    """Return the user's token: from HF_TOKEN or its older name, else from the token file; "" if there is none.

    The token file is not read if HF_HUB_DISABLE_IMPLICIT_TOKEN is set.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(name, "").strip():
            return os.environ[name].strip()
    if _is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return ""
    path = os.environ.get("HF_TOKEN_PATH") or os.path.join(_home(), "token")
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_TOKEN_BYTES).decode().strip()
    except (OSError, ValueError):
        return ""


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids requests."""
    return _is_set("HF_HUB_OFFLINE") or _is_set("TRANSFORMERS_OFFLINE")


def cached_commit(file: HubFile) -> str | None:
    """Return the revision if it is a commit, else the commit of the revision at the last download, or None."""
    if COMMIT.fullmatch(file.revision):
        return file.revision
    descriptor = _open(file, f"refs/{file.revision}")
    if descriptor is None:
        return None
    try:
        text = os.read(descriptor, 64).decode("ascii", "replace").strip()  # a commit has 40 digits
    finally:
        os.close(descriptor)
    return text if COMMIT.fullmatch(text) else None


def is_maybe_cached(file: HubFile) -> bool:
    """Return whether the file seems to be in the cache, from any commit."""
    snapshots = os.path.join(_folder_of(file), "snapshots")
    try:
        return any(os.path.lexists(os.path.join(snapshots, name, file.path)) for name in os.listdir(snapshots))
    except (OSError, ValueError):
        return False


def open_cached(file: HubFile, commit: str) -> int | None:
    """Open a file of a commit in the cache for reading. Return its descriptor; None if it is not cached.

    Symbolic links are followed inside the repository's folder only, and only regular files are opened.
    """
    return _open(file, f"snapshots/{commit}/{file.path}") if COMMIT.fullmatch(commit) else None


def _open(file: HubFile, name: str) -> int | None:
    """Open a file by its path in the repository's folder. Return None if it can't be opened or is not in the folder.

    Raises OSError if too many files are open.
    """
    folder = _folder_of(file)
    if not os.path.isdir(folder):
        return None
    try:
        return AllowedFolders(None, folder, None).open(name)[0]
    except Error:
        return None
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None


def _folder_of(file: HubFile) -> str:
    """Return the folder of a file's repository in the cache."""
    return os.path.join(_cache_folder(), "models--" + file.repository.replace("/", "--"))


def _cache_folder() -> str:
    """Return the folder of the repositories in the cache."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return os.path.expanduser(os.environ[name])
    return os.path.join(_home(), "hub")


def _home() -> str:
    """Return the folder of huggingface_hub's files."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.expanduser(os.environ.get("HF_HOME") or os.path.join(base, "huggingface"))


def _is_set(name: str) -> bool:
    """Return whether an environment variable has a value that means true."""
    return os.environ.get(name, "").upper() in _TRUE_VALUES
