"""What tensors refer to after a save that leaves their payloads where they are: the files beside the new model."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from onnxwire.errors import Error, SaveError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.folder import identity_of, whole
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.tensor.external_data import locations_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message
    from onnxwire.io.folder import Identity

_PLACES, _SAMPLE = 64, 1 << 14  # how many parts of two files are compared, and the bytes of each


def look_at_references(message: Message, path: str, *, refuse: bool) -> str:
    """Compare the files that tensors have their data in with those that the saved model would name.

    path: where the message is to be saved. refuse: whether to raise SaveError where a tensor would get another one's
    data. Returns what is to be told otherwise, or "". A tensor's files are those of the document that it is from: it
    may have come from another model, in another folder.
    """
    named: dict[tuple[ExternalFiles, str], str] = {}  # the first tensor that names a file
    for place, tensor in find_tensors(message):
        files = (tensor._document.files or message._document.files) if is_external(tensor) else None
        if files is not None:
            for location in locations_of(tensor):
                named.setdefault((files, location), place)
    if not named:
        return ""
    try:
        folder = os.path.dirname(whole(path))
    except OSError:
        return ""  # the save itself tells what is wrong with the path
    beside: dict[ExternalFiles, bool] = {}
    sources: dict[str, tuple[Identity, str]] = {}
    advice = ""
    for (files, location), place in named.items():
        is_beside = beside.get(files)
        if is_beside is None:
            is_beside = beside[files] = files.is_beside(path)
        target = _status_of(os.path.join(folder, location))
        source = files.status_of(location, only_open=is_beside)
        if source is None and is_beside:
            source = target  # it was not asked for yet, so that it is the one that is there
        elif target is None:
            advice = advice or f"{place} has its data in {location!r}, which is not in {folder}: copy it there, or save"
        elif source is not None and identity_of(source) != identity_of(target):
            if is_beside and refuse:
                reason = f"{place} has its data in {location!r} as it was when it was opened"
                raise _refusal(path, f"{reason}, and another file is there by now")
            if not is_beside and not _is_copy(files, ExternalFiles(None, root=folder, mmap=False), location):
                elsewhere = f"{place} has its data in another {location!r} than the one in {folder}"
                advice = advice or f"{elsewhere}, which the new model would read: save"
        if source is not None:
            identity, other = sources.setdefault(location, (identity_of(source), place))
            if identity != identity_of(source) and refuse:
                raise _refusal(path, f"{other} and {place} have their data in two files, both of them {location!r}")
    return f"{advice} with external= to have the data in the new file or beside it" if advice else ""


def _is_copy(ours: ExternalFiles, theirs: ExternalFiles, location: str) -> bool:
    """Whether two files have one size, and the same bytes in some places: weights differ nearly everywhere."""
    with suppress(Error, OSError), ours.look_at(location) as one, theirs.look_at(location) as other:
        size = os.fstat(one.descriptor).st_size
        if size != os.fstat(other.descriptor).st_size:
            return False
        for offset in (*range(0, size, max(size // _PLACES, 1)), max(size - _SAMPLE, 0)):
            length = min(_SAMPLE, size - offset)
            if bytes(one.view(offset, length)) != bytes(other.view(offset, length)):
                return False
        return True
    return False


def _status_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _refusal(path: str, reason: str) -> SaveError:
    return SaveError(errno.EINVAL, f"{reason}; give external= to write the data anew", path)
