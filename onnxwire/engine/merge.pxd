# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MergeFrom and DiscardUnknownFields."""
from onnxwire.engine.view cimport View

cdef int merge(View self, View source, bint is_parsed, int depth) except -1
cdef int discard_unknown(View self, int depth) except -1
