/* A Python module that makes allocations of the interpreter's three allocators fail. The engine's C code uses them too.
 *
 * call(function, first, count): call the function and return its result. The allocations of the call are counted from
 *     1; those from `first` to `first + count - 1` fail. Errors of the function are raised.
 * last_counts(): return (number of failed allocations, number of all allocations) of the last call.
 * block_count(): return the change of the number of allocated memory blocks since the import of the module.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyMemAllocatorEx originals[3];
static const PyMemAllocatorDomain domains[3] = {PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};

/* The hooks change the counters atomically, because threads of the engine allocate without the GIL. */
static long long n_allocations; /* allocations of the current or last call */
static long long n_failed;      /* failed allocations of the current or last call */
static long long n_blocks;      /* change of the number of allocated blocks since the import */
static long long first_failing; /* the first allocation that must fail, counted from 1 */
static long long n_failing;     /* number of allocations that must fail */
static int is_counting;         /* whether a call is in progress */

/* Count an allocation; return whether it must fail. */
static int should_fail(void)
{
    if (!__atomic_load_n(&is_counting, __ATOMIC_RELAXED)) return 0;
    long long i = __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    if (i < first_failing || i - first_failing >= n_failing) return 0;
    __atomic_add_fetch(&n_failed, 1, __ATOMIC_RELAXED);
    return 1;
}

/* Count a new block, unless the allocation failed; return its address. */
static void *count_block(void *p)
{
    if (p != NULL) __atomic_add_fetch(&n_blocks, 1, __ATOMIC_RELAXED);
    return p;
}

/* In the hooks, `context` is the original allocator. */
static void *hook_malloc(void *context, size_t size)
{
    PyMemAllocatorEx *original = context;
    return should_fail() ? NULL : count_block(original->malloc(original->ctx, size));
}

static void *hook_calloc(void *context, size_t n, size_t size)
{
    PyMemAllocatorEx *original = context;
    return should_fail() ? NULL : count_block(original->calloc(original->ctx, n, size));
}

static void *hook_realloc(void *context, void *p, size_t size)
{
    PyMemAllocatorEx *original = context;
    if (should_fail()) return NULL;
    void *moved = original->realloc(original->ctx, p, size);
    return p == NULL ? count_block(moved) : moved;
}

static void hook_free(void *context, void *p)
{
    PyMemAllocatorEx *original = context;
    if (p != NULL) __atomic_sub_fetch(&n_blocks, 1, __ATOMIC_RELAXED);
    original->free(original->ctx, p);
}

static PyObject *call(PyObject *module, PyObject *args)
{
    PyObject *function;
    long long first, count;
    if (!PyArg_ParseTuple(args, "OLL", &function, &first, &count)) return NULL;
    first_failing = first;
    n_failing = count;
    n_allocations = n_failed = 0;
    __atomic_store_n(&is_counting, 1, __ATOMIC_SEQ_CST);
    PyObject *result = PyObject_CallNoArgs(function);
    __atomic_store_n(&is_counting, 0, __ATOMIC_SEQ_CST);
    return result;
}

static PyObject *last_counts(PyObject *module, PyObject *ignored)
{
    return Py_BuildValue("LL", n_failed, n_allocations);
}

static PyObject *block_count(PyObject *module, PyObject *ignored)
{
    return PyLong_FromLongLong(__atomic_load_n(&n_blocks, __ATOMIC_RELAXED));
}

static PyMethodDef methods[] = {
    {"call", call, METH_VARARGS, NULL},
    {"last_counts", last_counts, METH_NOARGS, NULL},
    {"block_count", block_count, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "failing_memory", NULL, -1, methods};

PyMODINIT_FUNC PyInit_failing_memory(void)
{
    PyObject *module = PyModule_Create(&definition);
    for (int i = 0; module != NULL && i < 3; i++) {
        PyMemAllocatorEx hook = {&originals[i], hook_malloc, hook_calloc, hook_realloc, hook_free};
        PyMem_GetAllocator(domains[i], &originals[i]);
        PyMem_SetAllocator(domains[i], &hook);
    }
    return module;
}
