# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The encoding of a short edited message as a list of byte ranges."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.table cimport Table

cdef extern from "thresholds.h":
    enum:
        MAX_SHORT_CHUNKS "OW_MAX_SHORT_CHUNKS"

cdef enum:
    SCRATCH_BYTES = 512          # size of `scratch`
    MAX_NESTED = 8               # maximum number of levels of nested messages


cdef struct Chunk:
    # A range of bytes: of a document, of a value that an overlay owns, or of `scratch`.
    const uint8_t* p
    uint64_t n


cdef struct ShortMessage:
    # The encoding of a message. It refers to the message's values and to itself, so it is neither stored nor moved.
    uint64_t size                # bytes of the encoding
    int n                        # number of chunks
    int records                  # number of records that were read
    int depth                    # nesting level of the message that is being read
    int used                     # number of used bytes of `scratch`
    Chunk[MAX_SHORT_CHUNKS] chunks
    uint8_t[SCRATCH_BYTES] scratch   # tags, lengths and numbers


cdef bint chunk_message(
    ShortMessage* self, const Table* table, PyObject* document, PyObject* edits, const uint8_t* p, const uint8_t* end
) noexcept
