# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The check of a whole document."""
from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Table

cdef int check_document(Document document, Table* table) except -1
