# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The text form of a message, for people."""
from onnxwire.engine.view cimport View

cdef str text_form(View message)
