# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The base of message classes."""
from onnxwire.engine.view cimport View


# No member and no C method: a class made from a table has room for what a view has, and no more.
cdef class Message(View):
    pass
