/* The functions of onnxwire_python.h for tests, compiled as C99 and as C++. A handle is the address of an ow_python_pieces. */
#define PY_SSIZE_T_CLEAN
#define _POSIX_C_SOURCE 200809L
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "onnxwire_python.h"

static const ow_python_api *api;

static ow_python_pieces *pieces_of(PyObject *handle) { return (ow_python_pieces *)PyLong_AsVoidPtr(handle); }

/* Import the capsule onnxwire._c_api; return its version. */
static PyObject *load(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    api = ow_python_import();
    return api == NULL ? NULL : PyLong_FromLong((long)api->version);
}

/* Export a message (NULL for Ellipsis) into a struct that is first filled with garbage; return its handle. */
static PyObject *export_message(PyObject *module, PyObject *arguments) {
    PyObject *message;
    unsigned flags = 0;
    ow_python_pieces *pieces;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O|I", &message, &flags)) return NULL;
    pieces = (ow_python_pieces *)malloc(sizeof *pieces);
    memset(pieces, 0xAA, sizeof *pieces);
    if (api->export_message(message == Py_Ellipsis ? NULL : message, flags, pieces) != 0) {
        if (pieces->release != NULL) abort();
        ow_python_release(pieces);
        free(pieces);
        return NULL;
    }
    return PyLong_FromVoidPtr(pieces);
}

/* Return the size of the encoding and [(offset, size, address, owner) of each piece]; sizes in bytes. */
static PyObject *describe(PyObject *module, PyObject *handle) {
    const ow_python_pieces *pieces = pieces_of(handle);
    PyObject *list = PyList_New(0), *item;
    uint64_t i;
    (void)module;
    for (i = 0; i < pieces->count; i++) {
        const ow_python_piece *piece = &pieces->items[i];
        item = Py_BuildValue("KKNO", (unsigned long long)piece->offset, (unsigned long long)piece->size,
                             PyLong_FromVoidPtr((void *)piece->data), piece->owner);
        PyList_Append(list, item);
        Py_DECREF(item);
    }
    return Py_BuildValue("KN", (unsigned long long)pieces->size, list);
}

/* Read a range without the GIL; return its bytes, or the nonzero result of `api->read`. */
static PyObject *read_range(PyObject *module, PyObject *arguments) {
    PyObject *handle, *data;
    unsigned long long offset;
    Py_ssize_t size;
    int code;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OKn", &handle, &offset, &size)) return NULL;
    data = PyBytes_FromStringAndSize(NULL, size);
    if (data == NULL) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = api->read(pieces_of(handle), offset, PyBytes_AS_STRING(data), (size_t)size);
    Py_END_ALLOW_THREADS
    if (code == 0) return data;
    Py_DECREF(data);
    return PyLong_FromLong(code);
}

/* Call `api->check`, which raises an exception if a read failed, a file was changed or the pieces are released. */
static PyObject *check(PyObject *module, PyObject *handle) {
    (void)module;
    if (api->check(pieces_of(handle)) != 0) return NULL;
    Py_RETURN_NONE;
}

/* Return whether ow_python_bytes_at has a pointer to a range. */
static PyObject *has_range(PyObject *module, PyObject *arguments) {
    PyObject *handle;
    unsigned long long offset, size;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OKK", &handle, &offset, &size)) return NULL;
    return PyBool_FromLong(ow_python_bytes_at(pieces_of(handle), offset, size) != NULL);
}

/* Release with ow_python_release, and once more with the callback of the struct, which must then do nothing. */
static PyObject *release(PyObject *module, PyObject *handle) {
    ow_python_pieces *pieces = pieces_of(handle);
    void (*callback)(ow_python_pieces *) = pieces->release;
    (void)module;
    ow_python_release(pieces);
    if (callback != NULL) callback(pieces);
    Py_RETURN_NONE;
}

static void *run_release(void *pieces) {
    ow_python_release((ow_python_pieces *)pieces);
    return NULL;
}

/* Release in a thread that Python did not create, and wait for that thread without the GIL. */
static PyObject *release_in_other_thread(PyObject *module, PyObject *handle) {
    pthread_t thread;
    (void)module;
    pthread_create(&thread, NULL, run_release, pieces_of(handle));
    Py_BEGIN_ALLOW_THREADS
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* `release_late` releases handles in a thread, one every 0.1 ms, while Python exits, and the last one after the exit. */
static ow_python_pieces *late_handles[4096];
static size_t n_late_handles;
static pthread_t releasing_thread;

static void *release_slowly(void *none) {
    static const struct timespec pause = {0, 100000};
    size_t i;
    for (i = 0; i + 1 < n_late_handles; i++) {
        ow_python_release(late_handles[i]);
        nanosleep(&pause, NULL);
    }
    return none;
}

/* Check that Python has exited, and that the last handle can be released but not be read. */
static void at_exit(void) {
    unsigned char byte;
    pthread_join(releasing_thread, NULL);
    if (Py_IsInitialized()) _exit(3); /* the exit statuses 3 to 5 identify the check that failed */
    ow_python_release(late_handles[n_late_handles - 1]);
    if (api->read(late_handles[n_late_handles - 1], 0, &byte, 1) != 1) _exit(4); /* 1: the pieces are released */
    if (write(1, "released late\n", 14) != 14) _exit(5);
}

static PyObject *release_late(PyObject *module, PyObject *handles) {
    (void)module;
    n_late_handles = (size_t)PyList_Size(handles);
    for (size_t i = 0; i < n_late_handles; i++) late_handles[i] = pieces_of(PyList_GetItem(handles, (Py_ssize_t)i));
    atexit(at_exit);
    pthread_create(&releasing_thread, NULL, release_slowly, NULL);
    Py_RETURN_NONE;
}

/* Make a capsule with a copy of onnxwire's function table, in which version and size are replaced by the arguments. */
static PyObject *make_capsule(PyObject *module, PyObject *arguments) {
    static ow_python_api fake_api;
    unsigned version, size;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "II", &version, &size)) return NULL;
    fake_api = *api;
    fake_api.version = version;
    fake_api.size = size;
    return PyCapsule_New(&fake_api, ONNXWIRE_PYTHON_CAPSULE, NULL);
}

static PyMethodDef methods[] = {
    {"load", load, METH_NOARGS, NULL},
    {"export_message", export_message, METH_VARARGS, NULL},
    {"describe", describe, METH_O, NULL},
    {"read", read_range, METH_VARARGS, NULL},
    {"check", check, METH_O, NULL},
    {"has_range", has_range, METH_VARARGS, NULL},
    {"release", release, METH_O, NULL},
    {"release_in_other_thread", release_in_other_thread, METH_O, NULL},
    {"release_late", release_late, METH_O, NULL},
    {"make_capsule", make_capsule, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "c_api_module", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_c_api_module(void) { return PyModule_Create(&definition); }
