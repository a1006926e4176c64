"""Find the external data files of a model, and compare them with the target of a save and the files beside it."""

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

_SAMPLE_COUNT, _SAMPLE_BYTES = 64, 1 << 14  # approximate number, and size, of the samples that are compared


def references_of(message: Message) -> dict[tuple[ExternalFiles, str], str]:
    """Return the pairs (files, location) that tensors of a message refer to, each with the path of its first tensor.

    The files of a tensor are those of its own document, which may be in another folder than the message's document; if
    its document has none, those of the message's document. Tensors are omitted if neither document has files.
    """
    references: dict[tuple[ExternalFiles, str], str] = {}
    for tensor_path, tensor in find_tensors(message):
        files = (tensor._document.files or message._document.files) if is_external(tensor) else None
        if files is not None:
            for location in locations_of(tensor):
                references.setdefault((files, location), tensor_path)
    return references


def check_references(references: dict[tuple[ExternalFiles, str], str], path: str, *, refuse: bool) -> str:
    """Compare the external data files of a message with the files to which the saved model would refer.

    references: the references of the message. path: the path to save the message to. refuse: whether to raise SaveError
    if a file of a model that was read from the folder of `path` was replaced since it was opened, or if tensors refer
    to different files by the same location.
    Returns a warning for the first file that is missing or different in the folder of `path`, or "".
    """
    if not references:
        return ""
    try:
        folder = os.path.dirname(absolute_path(path))
    except OSError:
        return ""  # the save itself reports the fault of the path
    is_beside_by_files: dict[ExternalFiles, bool] = {}
    sources: dict[str, tuple[Identity, str]] = {}  # location -> its file, and path of its first tensor
    advice = ""
    for (files, location), tensor_path in references.items():
        is_beside = is_beside_by_files.get(files)
        if is_beside is None:
            is_beside = is_beside_by_files[files] = files.is_beside(path)
        new_status = _status_of(os.path.join(folder, location))
        old_status = files.status_of(location, if_open=is_beside)
        if old_status is None and is_beside:
            old_status = new_status  # the file is not open, so the tensor refers to the existing file
        elif new_status is None:
            advice = advice or f"{tensor_path} has its data in {location!r}, which is not in {folder}: copy it, or save"
        elif old_status is not None and identity_of(old_status) != identity_of(new_status):
            if is_beside and refuse:
                reason = f"{tensor_path} has its data in {location!r}, which was replaced since it was opened"
                raise _refusal_error(path, reason)
            if not is_beside and not _are_equal_files(files, ExternalFiles(None, root=folder, mmap=False), location):
                difference = f"{tensor_path} has its data in a {location!r} that differs from the file in {folder}"
                advice = advice or f"{difference}, which the new model would read: save"
        if old_status is not None:
            identity, first_path = sources.setdefault(location, (identity_of(old_status), tensor_path))
            if identity != identity_of(old_status) and refuse:
                raise _refusal_error(
                    path, f"{first_path} and {tensor_path} have their data in two different files named {location!r}"
                )
    return f"{advice} with external= to write the data into the new file or beside it" if advice else ""


def _are_equal_files(old_files: ExternalFiles, new_files: ExternalFiles, location: str) -> bool:
    """Return whether the two files for a location agree in size and in samples. Return False if a file can't be read.

    Samples suffice because different weights differ nearly everywhere.
    """
    with (
        suppress(Error, OSError),
        old_files.open_temporarily(location) as old_file,
        new_files.open_temporarily(location) as new_file,
    ):
        size = os.fstat(old_file.descriptor).st_size
        if size != os.fstat(new_file.descriptor).st_size:
            return False
        for offset in (*range(0, size, max(size // _SAMPLE_COUNT, 1)), max(size - _SAMPLE_BYTES, 0)):
            length = min(_SAMPLE_BYTES, size - offset)
            if bytes(old_file.view(offset, length)) != bytes(new_file.view(offset, length)):
                return False
        return True
    return False


def _status_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _refusal_error(path: str, reason: str) -> SaveError:
    return SaveError(errno.EINVAL, f"{reason}; pass external= to write the data again", path)


def reject_own_data_file(
    message: Message, path: str, references: dict[tuple[ExternalFiles, str], str] | None = None
) -> None:
    """Raise SaveError if the file to write contains external data of a message.

    path: the file to write. references: the references of the message, if they are known.
    """
    if not os.path.isfile(path):
        return
    target = identity_of(os.stat(path))
    for files, location in references_of(message) if references is None else references:
        is_same = False
        with suppress(Error), files.open_temporarily(location) as file:  # a file may be missing, or not allowed
            is_same = file.descriptor >= 0 and identity_of(os.fstat(file.descriptor)) == target
        if is_same:
            raise SaveError(errno.EINVAL, "the model's weights are in this file; choose another one", path)
