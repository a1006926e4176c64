# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""DecodeErrors for damaged bytes: the fault, its byte offset and its path in the document."""
from libc.stdint cimport uint8_t

from onnxwire._varint cimport Damage
from onnxwire.engine.document cimport Document

cdef object damage_error(Document document, Damage damage, const uint8_t* end)
cdef object decode_error(Document document, const uint8_t* record, const uint8_t* end, int depth=*)
cdef object packed_error(Document document, const uint8_t* start, const uint8_t* end, int size)
