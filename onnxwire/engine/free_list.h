/* Objects that wait in a free list, where they have no references. They keep their type, but not a reference to it. */
#ifndef ONNXWIRE_FREE_LIST_H
#define ONNXWIRE_FREE_LIST_H

#include <Python.h>

/* Give an object from a free list one reference. PyObject_Init does the same and also informs tracemalloc. */
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

/* Release an object's reference to its type, before the object is put into a free list. */
static inline void ow_release_type(PyObject *o)
{
    if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE))
        Py_DECREF((PyObject *)Py_TYPE(o));
}

#endif
