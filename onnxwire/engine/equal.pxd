# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Whether two messages are equal."""
from onnxwire.engine.view cimport View

cdef bint equal_views(View a, View b) except -1
