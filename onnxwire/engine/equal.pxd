# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Equality of messages."""
from onnxwire.engine.view cimport View

cdef bint equal_views(View a, View b) except -1
