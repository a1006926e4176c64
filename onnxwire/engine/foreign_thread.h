/* Support for threads without the GIL that must run Python code, possibly while the interpreter exits.
 *
 * Once Python's finalization has begun, PyGILState_Ensure ends or blocks a thread that calls it. So threads that
 * enter without the GIL are counted, and an `atexit` function refuses further threads and waits until all have left.
 */
#ifndef ONNXWIRE_FOREIGN_THREAD_H
#define ONNXWIRE_FOREIGN_THREAD_H

#include <Python.h>

#ifdef _MSC_VER
#include <intrin.h>
#define ow_add(p, n) _InterlockedExchangeAdd((long volatile *)(p), (n))
#else
#define ow_add(p, n) __atomic_fetch_add((p), (n), __ATOMIC_SEQ_CST)
#endif

#define OW_CLOSED (1L << 30) /* added to the number of entered threads when no more may enter */

typedef struct {
    PyGILState_STATE state;
    int is_counted; /* 1 if ow_enter_python acquired the GIL */
} OwEntry;

/* Return whether this thread has the GIL: an attached thread state. */
static inline int ow_has_gil(void) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked() != NULL;
#else
    PyThreadState *thread_state = Py_IsInitialized() ? PyGILState_GetThisThreadState() : NULL;
    return thread_state != NULL && thread_state == _PyThreadState_UncheckedGet();
#endif
}

/* Acquire the GIL unless this thread has it, and return 1. Return 0 if it can't be acquired because Python exits. */
static inline int ow_enter_python(long *n_entered, OwEntry *entry) {
    entry->is_counted = 0;
    if (ow_has_gil()) return 1;
    if (ow_add(n_entered, 1) >= OW_CLOSED) {
        ow_add(n_entered, -1);
        return 0;
    }
    entry->is_counted = 1;
    entry->state = PyGILState_Ensure();
    return 1;
}

/* Release the GIL if ow_enter_python acquired it. */
static inline void ow_leave_python(long *n_entered, OwEntry *entry) {
    if (entry->is_counted) {
        PyGILState_Release(entry->state);
        ow_add(n_entered, -1);
    }
}

#endif
