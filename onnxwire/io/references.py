"""Check which files the tensors of a saved model refer to, if their external data is not saved with it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from onnxwire.errors import Error, SaveError
from onnxwire.io.external_files import ExternalFiles
from onnxwire.io.folder import absolute_path, identity_of
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.tensor.external_data import locations_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message
    from onnxwire.io.folder import Identity

_SAMPLE_COUNT, _SAMPLE_BYTES = 64, 1 << 14  # number and size of the samples of two files that are compared


def references_of(message: Message) -> dict[tuple[ExternalFiles, str], str]:
    """Return the external files and locations that a message refers to, each with the path of the first tensor.

    A tensor's files are those of its own document, which may be another model in another folder.
    """
    named: dict[tuple[ExternalFiles, str], str] = {}
    for tensor_path, tensor in find_tensors(message):
        files = (tensor._document.files or message._document.files) if is_external(tensor) else None
        if files is not None:
            for location in locations_of(tensor):
                named.setdefault((files, location), tensor_path)
    return named


def check_references(named: dict[tuple[ExternalFiles, str], str], path: str, *, refuse: bool) -> str:
    """Compare the external data files of a message with those that the saved model would refer to.

    named: the references of the message. path: where the message is to be saved. refuse: raise SaveError if a tensor
    would read another file's data; else return a warning, or "" if all references stay valid.
    """
    if not named:
        return ""
    try:
        folder = os.path.dirname(absolute_path(path))
    except OSError:
        return ""  # the save itself reports the fault of the path
    beside: dict[ExternalFiles, bool] = {}
    sources: dict[str, tuple[Identity, str]] = {}
    advice = ""
    for (files, location), tensor_path in named.items():
        is_beside = beside.get(files)
        if is_beside is None:
            is_beside = beside[files] = files.is_beside(path)
        target = _status_of(os.path.join(folder, location))
        source = files.status_of(location, only_open=is_beside)
        if source is None and is_beside:
            source = target  # the file is not open, so the tensor refers to the existing file
        elif target is None:
            advice = advice or f"{tensor_path} has its data in {location!r}, which is not in {folder}: copy it, or save"
        elif source is not None and identity_of(source) != identity_of(target):
            if is_beside and refuse:
                reason = f"{tensor_path} has its data in {location!r}, which was replaced since it was opened"
                raise _refusal(path, reason)
            if not is_beside and not _is_copy(files, ExternalFiles(None, root=folder, mmap=False), location):
                elsewhere = f"{tensor_path} has its data in a {location!r} that differs from the file in {folder}"
                advice = advice or f"{elsewhere}, which the new model would read: save"
        if source is not None:
            identity, other = sources.setdefault(location, (identity_of(source), tensor_path))
            if identity != identity_of(source) and refuse:
                raise _refusal(
                    path, f"{other} and {tensor_path} have their data in two different files named {location!r}"
                )
    return f"{advice} with external= to write the data into the new file or beside it" if advice else ""


def _is_copy(ours: ExternalFiles, theirs: ExternalFiles, location: str) -> bool:
    """Return whether two files agree in size and in samples: different weights differ nearly everywhere."""
    with suppress(Error, OSError), ours.open_temporarily(location) as one, theirs.open_temporarily(location) as other:
        size = os.fstat(one.descriptor).st_size
        if size != os.fstat(other.descriptor).st_size:
            return False
        for offset in (*range(0, size, max(size // _SAMPLE_COUNT, 1)), max(size - _SAMPLE_BYTES, 0)):
            length = min(_SAMPLE_BYTES, size - offset)
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


def refuse_weights(message: Message, path: str, named: dict[tuple[ExternalFiles, str], str] | None = None) -> None:
    """Raise SaveError if the file to write contains external data of the message. named: its references, if known."""
    if message._document.files is None or not os.path.isfile(path):
        return
    wanted = identity_of(os.stat(path))
    for files, location in references_of(message) if named is None else named:
        is_same = False
        with suppress(Error), files.open_temporarily(location) as file:  # a file may be missing, or not allowed
            is_same = file.descriptor >= 0 and identity_of(os.fstat(file.descriptor)) == wanted
        if is_same:
            raise SaveError(errno.EINVAL, "the model's weights are in this file; choose another one", path)
