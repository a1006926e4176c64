# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The text format of a message, as `str(message)` returns it."""
from onnxwire.engine.view cimport View

cdef str text_form(View message)
