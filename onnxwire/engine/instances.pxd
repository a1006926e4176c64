"""Makes types whose instances only the engine creates, with `T.__new__(T)` in the C code of T's module."""

cdef extern from *:
    """
    static PyObject *ow_refuse_new(PyTypeObject *cls, PyObject *args, PyObject *keywords)
    {
        PyObject *maker = PyObject_GetAttrString((PyObject *)cls, "_made_by");
        (void)args;
        (void)keywords;
        if (maker != NULL) {
            PyErr_Format(
                PyExc_TypeError, "cannot create %s objects directly; they are made by %S", cls->tp_name, maker);
            Py_DECREF(maker);
        }
        return NULL;
    }

    static inline int ow_make_internal(PyObject *o, const char *made_by)
    {
        PyTypeObject *cls = (PyTypeObject *)o;
        PyObject *maker = PyUnicode_FromString(made_by);
        int status = maker == NULL ? -1 : PyDict_SetItemString(cls->tp_dict, "_made_by", maker);
        Py_XDECREF(maker);
        if (status == 0) {
            cls->tp_new = ow_refuse_new;
            cls->tp_vectorcall = NULL;  // set by Cython; takes precedence over tp_new
            PyType_Modified(cls);
        }
        return status;
    }

    static inline void ow_close_base(PyObject *o)
    {
        ((PyTypeObject *)o)->tp_flags &= ~Py_TPFLAGS_BASETYPE;
        PyType_Modified((PyTypeObject *)o);
    }
    """
    # Make calls, `__new__`, copies and pickles of an extension type raise TypeError. made_by: named in the message as
    # the way to get an instance. C code in the type's own module can still create instances, at no cost.
    int make_internal "ow_make_internal"(object cls, const char* made_by) except -1
    # Forbid Python subclasses of an extension type that has subclasses in C. An instance of a Python subclass would be
    # finalized by its `__del__` even if `__cinit__` failed.
    void close_base "ow_close_base"(object cls) noexcept
