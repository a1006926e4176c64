# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Freezing: encoding added elements that have no view, so that they take the memory of their bytes only."""
from onnxwire.engine.overlay cimport Elements
from onnxwire.engine.view cimport View

cdef extern from "thresholds.h":
    enum:
        FREEZE_BATCH "OW_FREEZE_BATCH"


cdef Elements freeze_elements(Elements elements, View message)
