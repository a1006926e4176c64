"""Assign tensors of .safetensors files to TensorProtos, and write initializers to such files.

Only payloads in typed fields, such as float_data, are read into memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress

from onnxwire.engine.record_reader import payload_at
from onnxwire.errors import DecodeError, Error, FieldTextError, FieldTypeError, TensorError, count_text
from onnxwire.io.atomic_file import AtomicFile
from onnxwire.io.references import reject_own_data_file
from onnxwire.io.source import open_document
from onnxwire.io.utf8 import valid_text
from onnxwire.messages import ModelProto
from onnxwire.tensor.dtypes import BY_NAME, MAX_COUNT
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.placement import clear_elements, set_reference
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeGuard

    from typing_extensions import Buffer

    from onnxwire.engine.document import Document
    from onnxwire.io.external_files import ExternalFiles
    from onnxwire.messages import TensorProto
    from onnxwire.tensor.dtypes import DataType

    RangeReader = Callable[[int, int], Buffer]
    """A function of offset and length that returns these bytes of a file."""

    Entry = tuple[DataType, list[int], int, int]
    """A tensor's type and shape, and the start and end of its bytes in the file."""

_FORMAT_NAMES = {
    "BOOL": "BOOL", "FLOAT4E2M1": "F4", "FLOAT6E2M3": "F6_E2M3", "FLOAT6E3M2": "F6_E3M2", "UINT8": "U8", "INT8": "I8",
    "FLOAT8E5M2": "F8_E5M2", "FLOAT8E4M3FN": "F8_E4M3", "FLOAT8E8M0": "F8_E8M0", "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ",
    "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ", "INT16": "I16", "UINT16": "U16", "FLOAT16": "F16", "BFLOAT16": "BF16",
    "INT32": "I32", "UINT32": "U32", "FLOAT": "F32", "COMPLEX64": "C64", "DOUBLE": "F64", "INT64": "I64",
    "UINT64": "U64",
}  # fmt: skip
"""The names of ONNX's data types in the format of safetensors 0.8; the format lacks all other data types."""

_DATA_TYPES = {name: BY_NAME[data_type] for data_type, name in _FORMAT_NAMES.items()}
_METADATA = "__metadata__"
_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors package


def to_safetensors(
    model: ModelProto,
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Write the initializers of the main graph to a .safetensors file atomically. Return its size in bytes.

    names: the names of the initializers to write, by default all. metadata: the metadata of the file. progress: called
    with the number of bytes written so far and the size of the file. The model is not changed.
    Payloads are copied from file to file; only those of typed fields, such as float_data, are read into memory, one at
    a time. Tensors are sorted by decreasing element size, so that each begins at a multiple of its element size.
    Raises TensorError for tensors that the format can't store: strings, COMPLEX128, INT4, UINT4, INT2, UINT2, elements
    of 4 or 6 bits that do not fill the last byte, chunks (`segment`), sparse tensors, and tensors with an empty,
    duplicate, reserved or invalid name; also for entries of `names` that no initializer has, for invalid tensors, and
    for a header of more than 100 MB. Raises FieldTypeError if `model` is not a ModelProto, `names` is a str, or the
    metadata has a key or value that is not a str; FieldTextError for lone surrogates in the metadata; SaveError and
    SourceError like `save`.
    Source: https://github.com/huggingface/safetensors, "Format".
    """
    snapshot = ModelProto()
    snapshot.CopyFrom(model)  # the program may edit the model in `progress`
    reject_own_data_file(snapshot, os.fsdecode(path))
    tensors = _initializers(snapshot)
    if names is not None:
        tensors = _select(tensors, _identity_mapping(names))
    else:
        for sparse in snapshot.graph.sparse_initializer:
            raise tensor_error(sparse.values, "safetensors has no sparse tensors; choose the dense ones with names=")
    storages = [(name, _storage(name, tensor)) for name, tensor in tensors.items()]
    storages.sort(key=lambda item: -item[1].data_type.bits)
    header: dict[str, object] = {_METADATA: _check_metadata(metadata)} if metadata else {}
    end = 0
    for name, storage in storages:
        start, end = end, end + storage.data_type.count_bytes(storage.count)
        header[name] = {
            "dtype": _FORMAT_NAMES[storage.data_type.name],
            "shape": storage.shape,
            "data_offsets": (start, end),
        }
    text = _encode_header(header)
    total = 8 + len(text) + end
    report = None if progress is None else lambda n_written: progress(n_written, total)
    with AtomicFile(path, total, report) as target:
        target.write(len(text).to_bytes(8, "little") + text)
        for _, storage in storages:
            storage.write(target)
    return total


def from_safetensors(
    model: ModelProto,
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | Mapping[str, str] | None = None,
    refer_to_file: bool = True,
) -> int:
    """Assign the tensors of a .safetensors file to initializers of the main graph. Return the number of assignments.

    names: the names of the initializers, or a mapping from them to names in the file; by default all names that both
    the model and the file have. Other tensors of the file are ignored, and no initializer is added. Types and shapes
    become those of the file.
    Only the header is read. If the file is in the model's folder or below it, the initializers refer to it as external
    data, and by default `save` keeps these references. For any other file, and with refer_to_file=False, payloads
    become raw_data, which stays in the mapped file until `save` copies it from file to file.
    Raises DecodeError for a file that is damaged or has another format, SourceError for a file that can't be opened,
    TensorError for a name that the model or the file lacks or that two initializers have, and FieldTypeError if `model`
    is not a ModelProto or `names` is a str; the model is then unchanged.
    """
    tensors = _initializers(model)
    keys = names if isinstance(names, Mapping) else _identity_mapping(tensors if names is None else names)
    tensors = _select(tensors, keys)
    location, source, size, read_range = _open(model._document.files if refer_to_file else None, path)
    entries = read_header(read_range, size, source)
    assignments: list[tuple[TensorProto, Entry]] = []
    for name, tensor in tensors.items():
        key = keys[name]
        if key in entries:
            assignments.append((tensor, entries[key]))
        elif names is not None:
            raise tensor_error(tensor, f"{source} has no tensor {_quote(key)}")
    for tensor, entry in assignments:
        _assign_entry(tensor, entry, location, read_range)
    return len(assignments)


def assign_tensor(tensor: TensorProto, path: str | os.PathLike[str], name: str) -> None:
    """Assign a tensor of a .safetensors file to any tensor, like `from_safetensors` with refer_to_file=False.

    Raises the errors of `from_safetensors`.
    """
    _, source, size, read_range = _open(None, path)
    entry = read_header(read_range, size, source).get(name)
    if entry is None:
        raise tensor_error(tensor, f"{source} has no tensor {_quote(name)}")
    _assign_entry(tensor, entry, "", read_range)


def list_tensors(path: str | os.PathLike[str]) -> dict[str, tuple[DataType, list[int]]]:
    """Return data types and shapes of the tensors in a .safetensors file. Raises DecodeError and SourceError."""
    document = open_document(path)
    try:
        entries = read_header(_range_reader_of(document), len(document), document.name)
    finally:
        document.close()
    return {name: (data_type, shape) for name, (data_type, shape, _, _) in entries.items()}


def _assign_entry(tensor: TensorProto, entry: Entry, location: str, read_range: RangeReader) -> None:
    """Assign an entry of a file to a tensor: as external data if there is a location, else as raw_data."""
    data_type, shape, start, end = entry
    clear_elements(tensor)
    tensor.ClearField("segment")
    tensor.data_type = data_type.number
    tensor.dims[:] = shape
    if location:
        set_reference(tensor, location, start, end - start)
    else:
        tensor._share("raw_data", memoryview(read_range(start, end - start)))


def read_header(read_range: RangeReader, size: int, source: str) -> dict[str, Entry]:
    """Return the entries of a .safetensors file of `size` bytes by name. source: the file's name.

    Raises DecodeError for files that the safetensors package rejects, for duplicate names, and for data types and
    shapes that a TensorProto can't have.
    """

    def error_of(reason: str) -> DecodeError:
        return DecodeError(reason, None, "", source)

    if size < 8:
        raise error_of(
            f"a .safetensors file begins with an 8-byte number, but this file has {count_text(size, 'byte')}"
        )
    length = int.from_bytes(bytes(read_range(0, 8)), "little")
    if length > _MAX_HEADER_BYTES:
        reason = f"the header has {length:,} bytes, more than the limit of {_MAX_HEADER_BYTES:,}"
        raise error_of(f"{reason}; this is not a .safetensors file")
    start = 8 + length
    if start > size:
        excess = count_text(start - size, "byte")
        raise error_of(f"the header runs past the end of the file by {excess}; fetch or copy the file again")
    try:
        header = json.loads(
            str(read_range(8, length), "utf-8"), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError) as error:
        raise error_of(f"the header is not valid JSON of a .safetensors file: {error}") from None
    if type(header) is not dict:
        raise error_of("the header is not a JSON object")
    metadata = header.pop(_METADATA, None)
    if metadata is not None and not (
        type(metadata) is dict and all(isinstance(value, str) for value in metadata.values())
    ):
        raise error_of(f"{_METADATA} in the header is not an object of strings")
    entries: dict[str, Entry] = {}
    for name, row in header.items():
        entry = _parse_entry(row, start)
        if isinstance(entry, str):
            raise error_of(f"tensor {_quote(name)}: {entry}")
        entries[name] = entry
    end = start
    for name, (_, _, data_start, data_end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if data_start != end:
            raise error_of(
                f"tensor {_quote(name)} begins at byte {data_start:,}, but the data before it ends at {end:,}"
            )
        end = data_end
    if end != size:
        raise error_of(f"the tensors end at byte {end:,}, and the file at {size:,}; it is truncated or has extra bytes")
    return entries


def _parse_entry(fields: object, data_offset: int) -> Entry | str:
    """Return an entry of the header, or its fault as text. data_offset: the offset of the data in the file."""
    fields = fields if type(fields) is dict else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not (isinstance(dtype, str) and _are_sizes(shape) and _are_sizes(offsets) and len(offsets) == 2):
        return "dtype, shape or data_offsets is missing or invalid"
    data_type = _DATA_TYPES.get(dtype)
    if data_type is None:
        return f"dtype {_quote(dtype)} is unknown"
    bits = data_type.bits
    for dim in shape:
        # The limit is checked in each step, because the product of many dims would be a huge integer.
        bits *= max(dim, 1)
        if bits > MAX_COUNT:
            return "the product of the dims is too large"
    bits = 0 if 0 in shape else bits
    data_start, data_end = offsets
    if bits % 8 or bits // 8 != data_end - data_start:
        size_text = f"{bits / 8:,} bytes" if bits % 8 else count_text(bits // 8, "byte")
        return f"shape and dtype require {size_text}, but data_offsets span {data_end - data_start:,}"
    return data_type, shape, data_offset + data_start, data_offset + data_end


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return type(value) is list and all(type(item) is int and 0 <= item <= MAX_COUNT for item in value)


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is duplicated")
    return values


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _quote(name: str) -> str:
    return repr(name if len(name) <= 200 else name[:200] + "…")


def _open(files: ExternalFiles | None, path: str | os.PathLike[str]) -> tuple[str, str, int, RangeReader]:
    """Open a file. Return its location as external data, its name, its size, and a reader.

    The location is "" if the file can't be external data, or if `files` is None.
    """
    folder = None if files is None else files.folder
    if files is not None and folder is not None:
        # A file that can't be external data, for any reason, is opened below.
        with suppress(Error, OSError, ValueError):
            location = os.path.relpath(path, folder or os.curdir).replace(os.sep, "/")
            file = files.open(location)
            if file.descriptor >= 0 and os.path.samestat(os.fstat(file.descriptor), os.stat(path)):
                return location, file.name, file.size, file.view
    document = open_document(path)
    return "", document.name, len(document), _range_reader_of(document)


def _range_reader_of(document: Document) -> RangeReader:
    return lambda offset, length: payload_at(document, offset, offset + length)


def _initializers(model: ModelProto) -> dict[str, TensorProto]:
    """Return the initializers of the main graph by name.

    Raises FieldTypeError if `model` is not a ModelProto, and TensorError for equal names.
    """
    if not isinstance(model, ModelProto):
        raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    initializers: dict[str, TensorProto] = {}
    for tensor in model.graph.initializer:
        if initializers.setdefault(tensor.name, tensor) is not tensor:
            raise tensor_error(tensor, "another initializer has the same name; rename one of them, or remove it")
    return initializers


def _identity_mapping(names: Iterable[str]) -> dict[str, str]:
    """Return a mapping from each name to itself. Raises FieldTypeError for a single str."""
    if isinstance(names, str):
        raise FieldTypeError(f"names must be a list of names, not a str; write [{names!r}]")
    return {name: name for name in names}


def _select(tensors: dict[str, TensorProto], names: Iterable[str]) -> dict[str, TensorProto]:
    """Return the tensors with these names. Raises TensorError for a name that no tensor has."""
    for name in names:
        if name not in tensors:
            raise TensorError("the model has no initializer of that name", name)
    return {name: tensors[name] for name in names}


def _storage(name: str, tensor: TensorProto) -> Storage:
    """Return the storage of an initializer. Raises TensorError if the format can't store it."""
    storage = Storage(tensor)
    data_type = storage.data_type
    reason = ""
    if not name:
        reason = "it has no name, and each tensor in a .safetensors file has one"
    elif name == _METADATA:
        reason = "this name is reserved in .safetensors files; rename the tensor"
    elif valid_text(name) != name:
        reason = "its name is not valid UTF-8; rename the tensor"
    elif data_type.name not in _FORMAT_NAMES:
        reason = f"safetensors has no type for {data_type.name}"
    elif tensor.HasField("segment"):
        reason = "it is a chunk of a tensor (`segment`); onnxwire.join_segments returns the full tensor"
    elif storage.count * data_type.bits % 8:
        reason = (
            f"the format requires whole bytes; the last byte of {count_text(storage.count, 'element')} of "
            f"{data_type.bits} bits is not full"
        )
    if reason:
        raise tensor_error(tensor, reason)
    return storage


def _check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of the metadata. Raises FieldTypeError if a key or value is not a str."""
    for item in metadata.items():
        if not all(isinstance(text, str) for text in item):
            raise FieldTypeError(f"metadata maps str to str, but has the item {item!r}")
    return dict(metadata)


def _encode_header(header: dict[str, object]) -> bytes:
    """Encode a header as JSON, padded with blanks to a multiple of 8 bytes, so that the data is aligned.

    Raises FieldTextError for a lone surrogate in the metadata, TensorError for a header that is longer than readers
    accept.
    """
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise FieldTextError(error, "metadata") from None
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER_BYTES:
        reason = f"the header would have {len(text):,} bytes, but readers accept at most {_MAX_HEADER_BYTES:,}"
        raise TensorError(reason)
    return text
