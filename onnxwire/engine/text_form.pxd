# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`str(message)`."""
from onnxwire.engine.view cimport View

cdef str text_form(View message)
