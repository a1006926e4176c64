"""Restrict extension types: no instances created by Python code, no Python subclasses."""

cdef extern from *:
    """
    static PyObject *ow_refuse_new(PyTypeObject *cls, PyObject *args, PyObject *keywords)
    {
        PyObject *creator = PyObject_GetAttrString((PyObject *)cls, "_creator");
        (void)args;
        (void)keywords;
        if (creator != NULL) {
            PyErr_Format(
                PyExc_TypeError, "cannot create %s objects directly; they are made by %S", cls->tp_name, creator);
            Py_DECREF(creator);
        }
        return NULL;
    }

    static inline int ow_forbid_instantiation(PyObject *o, const char *creator)
    {
        PyTypeObject *cls = (PyTypeObject *)o;
        PyObject *text = PyUnicode_FromString(creator);
        int status = text == NULL ? -1 : PyDict_SetItemString(cls->tp_dict, "_creator", text);
        Py_XDECREF(text);
        if (status == 0) {
            cls->tp_new = ow_refuse_new;
            cls->tp_vectorcall = NULL;  // set by Cython; takes precedence over tp_new
            PyType_Modified(cls);
        }
        return status;
    }

    static inline void ow_forbid_subclasses(PyObject *o)
    {
        ((PyTypeObject *)o)->tp_flags &= ~Py_TPFLAGS_BASETYPE;
        PyType_Modified((PyTypeObject *)o);
    }
    """
    # Make calls, `__new__`, copies and pickles of an extension type raise TypeError. creator: the function or operation
    # that returns instances, for the error text. The C code of the type's module still creates instances with
    # `T.__new__(T)`, at no cost.
    int forbid_instantiation "ow_forbid_instantiation"(object cls, const char* creator) except -1
    # Forbid Python subclasses of an extension type that has subclasses in C. An instance of a Python subclass would be
    # finalized by its `__del__` even if `__cinit__` failed.
    void forbid_subclasses "ow_forbid_subclasses"(object cls) noexcept
