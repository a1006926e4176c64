# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Elements that were made one by one become bytes again."""
from onnxwire.engine.overlay cimport Elements
from onnxwire.engine.view cimport View

cdef extern from "thresholds.h":
    enum:
        FOLD "OW_FOLD"


cdef Elements fold_elements(Elements elements, View message)
