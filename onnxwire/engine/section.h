/* The engine's lock in Python without the GIL. It has no cost in builds with the GIL, which already serializes threads.
 *
 * There is one section for the process. Every function that Python calls and that touches shared state is decorated
 * with Cython's `@critical_section`, which here means this section, not the lock of the function's first argument.
 * Like the GIL, it is released while a thread blocks or yields, so that code that runs in the middle of a call observes
 * the same state with and without the GIL. A function in the section calls other such functions without entering it
 * again.
 */
#ifndef ONNXWIRE_SECTION_H
#define ONNXWIRE_SECTION_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#ifndef Py_GIL_DISABLED

#define OW_FREE_THREADED 0
static inline PyObject *ow_try_incref(PyObject *o) { Py_INCREF(o); return o; }
static inline void ow_enable_try_incref(PyObject *o) { (void)o; }

#else

#define OW_FREE_THREADED 1

static PyObject *ow_cached_owner; /* the object whose lock is the section; NULL before the first use */

/* Return the object whose lock is the section; the module `engine/section.pyx` creates it. */
static PyObject *ow_section_owner(void)
{
    PyObject *owner = (PyObject *)_Py_atomic_load_ptr(&ow_cached_owner);
    if (owner == NULL) {
        PyObject *error = PyErr_GetRaisedException();
        PyObject *module = PyImport_ImportModule("onnxwire.engine.section");
        owner = module == NULL ? NULL : PyObject_GetAttrString(module, "SECTION");
        if (owner == NULL)
            Py_FatalError("onnxwire.engine.section is missing");
        Py_DECREF(module); /* the reference to the owner is never released */
        PyErr_SetRaisedException(error);
        _Py_atomic_store_ptr(&ow_cached_owner, owner);
    }
    return owner;
}

/* Return whether the engine's section is the critical section that this thread entered last. If the thread has entered
 * another critical section since then, and blocks, CPython releases both but re-acquires only the later one. */
static inline int ow_is_inside(PyThreadState *thread, PyObject *owner)
{
    uintptr_t last_section = thread->critical_section; /* the two lowest bits are flags; the lowest one: suspended */
    return last_section != 0 && (last_section & 1) == 0
        && ((PyCriticalSection *)(last_section & ~(uintptr_t)3))->_cs_mutex == &owner->ob_mutex;
}

/* Enter the section, unless it is the critical section that this thread entered last. */
static inline void ow_enter(PyCriticalSection *section)
{
    PyObject *owner = ow_section_owner();
    section->_cs_mutex = NULL;
    if (!ow_is_inside(PyThreadState_GetUnchecked(), owner))
        PyCriticalSection_Begin(section, owner);
}

/* Leave the section if the matching ow_enter entered it. */
static inline void ow_leave(PyCriticalSection *section)
{
    if (section->_cs_mutex != NULL)
        PyCriticalSection_End(section);
}

/* Redefine the functions that Cython calls for `@critical_section`. The macros around accesses to a dict, which Cython
 * uses too, still lock the dict: they call ow_begin_own and ow_end_own, which are defined before the redefinition. */
static inline void ow_begin_own(PyCriticalSection *section, PyObject *o) { PyCriticalSection_Begin(section, o); }
static inline void ow_end_own(PyCriticalSection *section) { PyCriticalSection_End(section); }
#undef Py_BEGIN_CRITICAL_SECTION
#undef Py_END_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(o) { PyCriticalSection ow_section; ow_begin_own(&ow_section, (PyObject *)(o))
#define Py_END_CRITICAL_SECTION() ow_end_own(&ow_section); }
#define PyCriticalSection_Begin(section, o) ((void)(o), ow_enter(section))
#define PyCriticalSection_End(section) ow_leave(section)

/* Return a new reference to a borrowed object, or NULL if another thread is releasing its last reference.
 * `ow_enable_try_incref` must have been called for the object before it was stored as a borrowed reference. */
#if PY_VERSION_HEX >= 0x030e0000
static inline PyObject *ow_try_incref(PyObject *o) { return PyUnstable_TryIncRef(o) ? o : NULL; }
static inline void ow_enable_try_incref(PyObject *o) { PyUnstable_EnableTryIncRef(o); }
#else
static inline PyObject *ow_try_incref(PyObject *o)
{
    Py_ssize_t shared;
    if (_Py_IsOwnedByCurrentThread(o)) {
        if (Py_REFCNT(o) <= 0)
            return NULL;
        Py_INCREF(o);
        return o;
    }
    shared = _Py_atomic_load_ssize_relaxed(&o->ob_ref_shared);
    do {
        if (shared == 0 || shared == _Py_REF_MERGED)
            return NULL;
    } while (!_Py_atomic_compare_exchange_ssize(&o->ob_ref_shared, &shared, shared + (1 << _Py_REF_SHARED_SHIFT)));
    return o;
}
static inline void ow_enable_try_incref(PyObject *o)
{
    Py_ssize_t shared = _Py_atomic_load_ssize_relaxed(&o->ob_ref_shared);
    while ((shared & _Py_REF_SHARED_FLAG_MASK) == 0
           && !_Py_atomic_compare_exchange_ssize(&o->ob_ref_shared, &shared, shared | _Py_REF_MAYBE_WEAKREF)) {
    }
}
#endif
#endif
#endif
