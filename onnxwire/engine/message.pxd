# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The base of message classes."""
from onnxwire.engine.view cimport View


# No member and no C method: classes made from tables have memory for the members of View only.
cdef class Message(View):
    pass
