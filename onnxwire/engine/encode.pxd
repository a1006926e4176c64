# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Serialization of messages with their edits."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.compact_overlay cimport CompactOverlay
from onnxwire.engine.encoder cimport Content, Edits, Encoder
from onnxwire.engine.view cimport View

cdef int measure(Encoder self, View message) except -1
cdef int write(Encoder self, View message) except -1
cdef bytes encode_in_one_pass(Encoder self, View message, uint64_t limit)
cdef int measure_and_fetch(Encoder encoder, View message) except -1
cdef uint64_t encoded_size(View message) except? 0xFFFFFFFF
cdef bytes encode(View message, bint deterministic)
cdef bytes encode_if_small(View message, Encoder encoder)
cdef bytes unknown_fields(View message)
cdef bytes content_unknown_fields(Content* content, uint32_t flags)
cdef int expand_edits(CompactOverlay compacted, Edits* edits, uint8_t* memory) except -1
