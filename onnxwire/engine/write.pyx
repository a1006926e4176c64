# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writes messages to files: what is encoded anew from memory, the rest from file to file."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.encode cimport BUFFER, Encoder, Piece, measure_there
from onnxwire.engine.file_writer cimport FileWriter
from onnxwire.engine.memory cimport free, malloc
from onnxwire.engine.partial cimport OPEN, PartialMemory, is_there, memory_of
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.view cimport View

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)

import errno

from onnxwire.errors import SourceError


@critical_section
def encode_pieces(View message, bint deterministic, FileWriter target or None):
    """Encode a message; returns its size, and what is still to be written.

    target: where everything but the long Pieces is written, each at its offset; with a stream, or None, that is
    returned too, as bytes between the Pieces, in order.
    """
    cdef Encoder encoder = Encoder(deterministic)
    measure_there(encoder, message)
    encoder.pieces = []
    if target is not None and not target.stream:
        encoder.target = target
    encoder.start = encoder.p = <uint8_t*>malloc(BUFFER)
    if encoder.p == NULL:
        raise MemoryError
    encoder.end = encoder.start + BUFFER
    try:
        encoder.write(message)
        encoder.flush()
    finally:
        free(encoder.start)
    return encoder.total, encoder.pieces


@critical_section
def write_payload(FileWriter target, content):
    """Write a buffer: bytes of a mapped file from that file, of one on a server as they come, others from memory."""
    cdef Py_buffer* buffer
    cdef Document document
    chunks = fetched_chunks(content)
    if chunks is not None:
        for chunk in chunks:
            target.write(chunk)
        return
    # The view keeps the document, and its file, from being closed meanwhile.
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
            target.put(NULL, 0)
            # Copying gigabytes takes seconds.
            document.check_unchanged()
            if document.descriptor < 0:
                raise SourceError(errno.EIO, "the file was written over while it was copied; save again")
        except SourceError as error:
            error.filename = document.name
            raise


def chunks_of(pieces, Py_ssize_t step):
    """The bytes of an encoding in order, at most `step` at a time; what would be fetched is, as it is come to."""
    for piece in pieces:
        whole = piece if isinstance(piece, bytes) else (<Piece>piece).payload
        for chunk in fetched_chunks(whole) or [whole]:
            with memoryview(chunk) as view:
                for start in range(0, len(view), step):
                    yield view[start:start + step]


cdef object fetched_chunks(content):
    """The bytes of a payload one chunk after another, where they are not all in memory and would be fetched; else None.

    So much of a file that is somewhere else goes through little memory.
    """
    cdef PartialMemory memory
    cdef Payload payload
    if OPEN == 0 or not isinstance(content, Payload):
        return None
    payload = content
    if payload.document is None or is_there(payload.p, <uint64_t>payload.n * payload.size):
        return None
    payload.document.check_open()
    memory = memory_of(payload.p)
    start = payload.p - memory.start
    return memory.source.chunks(start, start + <object>payload.n * payload.size)


@critical_section
def write_pieces(FileWriter target, pieces):
    """Write the Pieces, each at its offset, and the bytes between them."""
    for piece in pieces:
        if isinstance(piece, bytes):
            target.write(piece)
            continue
        if not target.stream:
            target.seek((<Piece>piece).offset)
        write_payload(target, (<Piece>piece).payload)
