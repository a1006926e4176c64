/* Who runs the engine in Python without the GIL; with the GIL, which does the same, all of this is nothing.
 *
 * There is one section, and what Python calls runs in it, one thread at a time: `@critical_section` says so of a
 * function, and means this section rather than the lock of the function's first argument. It is left for as long as the
 * thread waits for something or gives way, as the GIL would be, so that what holds for other code in the middle of a call
 * is the same with and without the GIL. A function in it calls others without entering again.
 *
 * Reading what nobody has edited changes nothing that threads share, or only what `engine/reading.pyx` makes sure of:
 * there, threads do not enter the section but count themselves among the readers, each in a place of its own. Whoever
 * enters waits until they are done, and keeps others from beginning; these enter then instead. So a reader does nothing
 * that waits, runs other code, or raises an error.
 */
#ifndef ONNXWIRE_SECTION_H
#define ONNXWIRE_SECTION_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#ifndef Py_GIL_DISABLED

#define OW_FREE_THREADED 0
typedef int ow_Own;
static inline Py_ssize_t *ow_start_reading(void) { return NULL; }
static inline void ow_stop_reading(Py_ssize_t *place) { (void)place; }
static inline void ow_own(ow_Own *own, PyObject *o) { (void)own; (void)o; }
static inline void ow_disown(ow_Own *own) { (void)own; }
static inline int ow_claim(uint32_t *epoch) { (void)epoch; return 0; }
static inline void ow_publish(uint32_t *epoch, uint32_t value) { *epoch = value; }
static inline uint32_t ow_look_at(const uint32_t *epoch) { return *epoch; }
static inline PyObject *ow_take_if_alive(PyObject *o) { Py_INCREF(o); return o; }
static inline void ow_enable_try_incref(PyObject *o) { (void)o; }

#else

#ifndef _WIN32
#include <sched.h>
#endif

#define OW_FREE_THREADED 1
#define OW_PLACES 32
#define OW_LINE 128 /* bytes that processors exchange, at most */

typedef struct {
    PyObject *owner; /* whose lock is the section's */
    Py_ssize_t n_inside; /* threads that are in the section, or wait for it, or left it for a while */
    char apart[OW_LINE];
    struct {
        Py_ssize_t n_readers;
        char apart[OW_LINE - sizeof(Py_ssize_t)];
    } places[OW_PLACES];
} ow_Section;

static ow_Section *ow_known_section;

/* The section, which the module `engine/section.pyx` makes. */
static ow_Section *ow_section(void)
{
    ow_Section *section = (ow_Section *)_Py_atomic_load_ptr(&ow_known_section);
    if (section == NULL) {
        PyObject *error = PyErr_GetRaisedException();
        PyObject *module = PyImport_ImportModule("onnxwire.engine.section");
        PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "SECTION");
        section = capsule == NULL ? NULL : (ow_Section *)PyCapsule_GetPointer(capsule, "onnxwire.engine.section.SECTION");
        if (section == NULL)
            Py_FatalError("onnxwire.engine.section is missing");
        Py_DECREF(module); /* the capsule stays */
        PyErr_SetRaisedException(error);
        _Py_atomic_store_ptr(&ow_known_section, section);
    }
    return section;
}

/* Whether the section is what this thread has entered last. Where it has entered something else since, and waits, it
 * leaves both, and only that other is entered again by itself. */
static inline int ow_is_inside(PyThreadState *thread, ow_Section *section)
{
    uintptr_t last = thread->critical_section; /* its two lowest bits are marks; the lowest: left for a while */
    return last != 0 && (last & 1) == 0
        && ((PyCriticalSection *)(last & ~(uintptr_t)3))->_cs_mutex == &section->owner->ob_mutex;
}

static inline void ow_pause(unsigned round)
{
    if (round % 64 == 63) {
#ifdef _WIN32
        SwitchToThread();
#else
        sched_yield();
#endif
    }
}

static inline void ow_enter(PyCriticalSection *entered)
{
    ow_Section *section = ow_section();
    unsigned i, round = 0;
    entered->_cs_mutex = NULL;
    if (ow_is_inside(PyThreadState_GetUnchecked(), section))
        return;
    _Py_atomic_add_ssize(&section->n_inside, 1);
    PyCriticalSection_Begin(entered, section->owner);
    for (i = 0; i < OW_PLACES; i++)
        while (_Py_atomic_load_ssize(&section->places[i].n_readers) != 0)
            ow_pause(round++);
}

static inline void ow_leave(PyCriticalSection *entered)
{
    if (entered->_cs_mutex == NULL)
        return;
    PyCriticalSection_End(entered);
    _Py_atomic_add_ssize(&ow_known_section->n_inside, -1);
}

/* Become a reader; NULL where that may not be now. */
static inline Py_ssize_t *ow_start_reading(void)
{
    ow_Section *section = ow_section();
    uintptr_t thread = (uintptr_t)PyThreadState_GetUnchecked();
    Py_ssize_t *place = &section->places[(thread >> 12 ^ thread >> 7) % OW_PLACES].n_readers;
    if (_Py_atomic_load_ssize_relaxed(&section->n_inside) != 0)
        return NULL;
    _Py_atomic_add_ssize(place, 1);
    if (_Py_atomic_load_ssize(&section->n_inside) != 0) {
        _Py_atomic_add_ssize(place, -1);
        return NULL;
    }
    return place;
}

static inline void ow_stop_reading(Py_ssize_t *place) { _Py_atomic_add_ssize(place, -1); }

/* The lock of one object, which readers take before they become that: of a position that they move on. */
typedef PyCriticalSection ow_Own;
static inline void ow_own(ow_Own *own, PyObject *o) { PyCriticalSection_Begin(own, o); }
static inline void ow_disown(ow_Own *own) { PyCriticalSection_End(own); }

/* What Cython writes for `@critical_section`. What it writes by itself, to go through a dict, is left as it is. */
#undef Py_BEGIN_CRITICAL_SECTION
#undef Py_END_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(o) { PyCriticalSection ow_entered; ow_own(&ow_entered, (PyObject *)(o))
#define Py_END_CRITICAL_SECTION() ow_disown(&ow_entered); }
#define PyCriticalSection_Begin(entered, o) ((void)(o), ow_enter(entered))
#define PyCriticalSection_End(entered) ow_leave(entered)

/* A view whose slots are not filled has the epoch 0; the one of the readers that fills them claims it first. */
#define OW_CLAIMED 0xFFFFFFFEu
static inline int ow_claim(uint32_t *epoch)
{
    uint32_t expected = 0;
    return _Py_atomic_compare_exchange_uint32(epoch, &expected, OW_CLAIMED);
}
static inline void ow_publish(uint32_t *epoch, uint32_t value) { _Py_atomic_store_uint32(epoch, value); }
static inline uint32_t ow_look_at(const uint32_t *epoch) { return _Py_atomic_load_uint32(epoch); }

/* A new reference to an object that is only borrowed, whose last owner may be letting go of it in another thread: then
 * NULL. Before it is borrowed the object must have been told. */
#if PY_VERSION_HEX >= 0x030e0000
static inline PyObject *ow_take_if_alive(PyObject *o) { return PyUnstable_TryIncRef(o) ? o : NULL; }
static inline void ow_enable_try_incref(PyObject *o) { PyUnstable_EnableTryIncRef(o); }
#else
static inline PyObject *ow_take_if_alive(PyObject *o)
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
