/* Objects in a free list. Their reference count is 0. `ob_type` still points to their type, without a counted
 * reference. */
#ifndef ONNXWIRE_FREE_LIST_H
#define ONNXWIRE_FREE_LIST_H

#include <Python.h>

/* Set the reference count of an object from a free list to 1, and count its reference to its type again. PyObject_Init
 * does the same and also informs tracemalloc. */
static inline void ow_revive(PyObject *o)
{
#if defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS)
    PyObject_Init(o, Py_TYPE(o));
#else
    Py_SET_REFCNT(o, 1);
    if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE))
        Py_INCREF((PyObject *)Py_TYPE(o));
#endif
}

/* Release the reference of an object to its type, when the object is put into a free list. */
static inline void ow_release_type(PyObject *o)
{
    if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE))
        Py_DECREF((PyObject *)Py_TYPE(o));
}

#endif
