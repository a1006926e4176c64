# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Freezing: added elements that have no view are encoded, so that they take only the memory of their bytes."""
from onnxwire.engine.overlay cimport Elements
from onnxwire.engine.view cimport View

cdef extern from "thresholds.h":
    enum:
        FREEZE_BATCH "OW_FREEZE_BATCH"


cdef Elements freeze_elements(Elements elements, View message)
