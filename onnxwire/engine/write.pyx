# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writing messages to files: encoded bytes from memory, unchanged long values from file to file."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.encode cimport measure_and_fetch, write
from onnxwire.engine.encoder cimport BUFFER_BYTES, Encoder, Piece
from onnxwire.engine.file_writer cimport FileWriter
from onnxwire.engine.memory cimport free, malloc
from onnxwire.engine.partial cimport N_PARTIAL, PartialMemory, is_resident, memory_of
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.view cimport View

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)

import errno

from onnxwire.errors import SourceError


@critical_section
def encode_pieces(View message, bint deterministic, FileWriter target or None):
    """Encode a message; returns (size in bytes, pieces that remain to be written).

    target: if its file is seekable, all bytes except long values are written to it, at their offsets, and only the
    Pieces of the long values are returned. If its file is a stream, or target is None, nothing is written, and the
    whole encoding is returned in order, as bytes objects and Pieces.
    """
    cdef Encoder encoder = Encoder(deterministic)
    cdef list pieces = []  # made first, because it may run the garbage collector
    measure_and_fetch(encoder, message)
    encoder.pieces = pieces
    if target is not None and not target.is_stream:
        encoder.target = target
    encoder.start = encoder.p = <uint8_t*>malloc(BUFFER_BYTES)
    if encoder.p == NULL:
        raise MemoryError
    encoder.end = encoder.start + BUFFER_BYTES
    try:
        write(encoder, message)
        encoder.flush()
    finally:
        free(encoder.start)
    return encoder.total, encoder.pieces


@critical_section
def write_payload(FileWriter target, content):
    """Write a buffer.

    A Payload of a mapped file is copied from that file. A Payload of a remote file that is not resident is written as
    it is fetched. Other bytes are written from memory. Raises SourceError if the mapped file was changed, or
    bytes can't be fetched.
    """
    cdef Py_buffer* buffer
    cdef Document document
    chunks = fetched_chunks(content)
    if chunks is not None:
        for chunk in chunks:
            target.write(chunk)
        return
    # The memoryview prevents closing the document and its file.
    with memoryview(content) as view:
        buffer = PyMemoryView_GET_BUFFER(view)
        document = (<Payload>view.obj).document if isinstance(view.obj, Payload) else None
        if document is None or document.descriptor < 0:
            target.write(view)
            return
        try:
            target.put_range(
                document.backing.descriptor, <uint64_t>(<const uint8_t*>buffer.buf - document.start),
                <uint64_t>buffer.len, NULL
            )
            target.put(NULL, 0)  # writes the range
            # The file may have been changed while it was copied.
            document.check_unchanged()
            if document.descriptor < 0:
                raise SourceError(errno.EIO, "the file was written over while it was copied; save again")
        except SourceError as error:
            error.filename = document.name
            raise


def chunks_of(pieces, Py_ssize_t step):
    """Yield the bytes of an encoding in order, at most `step` at a time, and fetch bytes that are not resident."""
    for piece in pieces:
        content = piece if isinstance(piece, bytes) else (<Piece>piece).payload
        for chunk in fetched_chunks(content) or [content]:
            with memoryview(chunk) as view:
                for start in range(0, len(view), step):
                    yield view[start:start + step]


@critical_section
def missing_ranges(pieces):
    """List the byte ranges of Pieces that are fetched from servers while they are written: (source, start, end)."""
    cdef Payload payload
    cdef PartialMemory memory
    ranges = []
    if N_PARTIAL == 0:
        return ranges
    for piece in pieces:
        if isinstance(piece, Piece):
            payload = (<Piece>piece).payload
            if payload.document is not None and not is_resident(payload.p, <uint64_t>payload.n * payload.size):
                memory = memory_of(payload.p)
                start = payload.p - memory.start
                ranges.append((memory.source, start, start + <object>payload.n * payload.size))
    return ranges


cdef object fetched_chunks(content):
    """Return an iterator that fetches the bytes of a payload chunk by chunk, or None if no byte must be fetched.

    The chunks do not become resident, so that copying a remote file takes little memory.
    """
    cdef PartialMemory memory
    cdef Payload payload
    if N_PARTIAL == 0 or not isinstance(content, Payload):
        return None
    payload = content
    if payload.document is None or is_resident(payload.p, <uint64_t>payload.n * payload.size):
        return None
    payload.document.check_open()
    memory = memory_of(payload.p)
    start = payload.p - memory.start
    return memory.source.chunks(start, start + <object>payload.n * payload.size)


@critical_section
def write_pieces(FileWriter target, pieces):
    """Write the pieces in order; in a seekable file, each Piece at its offset."""
    for piece in pieces:
        if isinstance(piece, bytes):
            target.write(piece)
            continue
        if not target.is_stream:
            target.seek((<Piece>piece).offset)
        write_payload(target, (<Piece>piece).payload)
