# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The section in which the engine runs, of which there is one (`section.h`)."""
import os

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    static ow_Section ow_the_section;

    static PyObject *ow_make_section(void)
    {
        ow_the_section.owner = PyCapsule_New(&ow_the_section, "onnxwire.engine.section.SECTION", NULL);
        return Py_XNewRef(ow_the_section.owner);
    }

    static void ow_empty_section(void)
    {
        if (ow_is_inside(PyThreadState_GetUnchecked(), &ow_the_section))
            return;
        memset(&ow_the_section.owner->ob_mutex, 0, sizeof(PyMutex));
        memset(ow_the_section.places, 0, sizeof(ow_the_section.places));
        ow_the_section.n_inside = 0;
    }
    #else
    static PyObject *ow_make_section(void) { Py_RETURN_NONE; }
    static void ow_empty_section(void) {}
    #endif
    """
    object make_section "ow_make_section"()
    void empty_section "ow_empty_section"()


# None where the GIL is the section.
SECTION = make_section()


def after_fork():
    """Forget the threads that a new process does not have."""
    empty_section()


if FREE_THREADED and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
