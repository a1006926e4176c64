"""Types whose objects only the engine makes: `T.__new__(T)` in the module that defines T, in C, and nowhere else."""

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
            cls->tp_vectorcall = NULL;  // which Cython's types have, and which would be called instead
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
    # Have Python's ways to create objects of an extension type raise TypeError: calls, `__new__`, copies and pickles.
    # made_by: what makes them, for the message. C code in the type's own module still creates them, at no cost.
    int make_internal "ow_make_internal"(object cls, const char* made_by) except -1
    # Let no Python class derive from an extension type that has subclasses of its own in C. An object of such a class
    # would be finalized by its `__del__` even where `__cinit__` refused to initialize it.
    void close_base "ow_close_base"(object cls) noexcept
