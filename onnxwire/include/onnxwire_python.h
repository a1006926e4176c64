/* onnxwire_python.h: read a Python message of onnxwire from C99 or C++11, edits included.

   An extension module receives the encoding of a message as pieces: ranges of the mapped file for values of 64 KiB and
   more that were not changed, and memory for the rest. So a model of any size is available in milliseconds:

       const ow_python_api *api = ow_python_import();
       ow_python_pieces pieces;
       if (api == NULL || api->export_message(message, 0, &pieces) != 0) return NULL;   (a Python exception is set)
       ... pieces.items[0].data, pieces.items[0].size, ...
       ow_python_release(&pieces);

   With onnxwire.h, `api->read` is the function that reads a source, and `pieces` its context:

       ow_open(&source, api->read, &pieces, pieces.size, buffer, sizeof buffer);

   Lifetime. Every piece has an owner, and is valid and constant until `release`, even if the message is edited, if its
   file is replaced or overwritten by onnxwire, or if every Python object that refers to the message is deleted. A
   document with unreleased pieces can't be closed: its `close` raises InUseError. Two kinds of memory can change, as they
   can under numpy arrays of a tensor: a mapped file that another program writes to or truncates, which `check` and `read`
   detect, and the memory of arrays that were passed to `onnxwire.from_array`, which must not be written to.

   Threads. `ow_python_import`, `export_message` and `check` need the GIL (an attached thread state). `read`,
   `ow_python_find` and `ow_python_bytes_at` are called with or without it, by any number of threads at once.
   `release` is called once, by any thread, with or without the GIL, after all reads have ended. While Python exits,
   from its `atexit` functions on, threads without the GIL can't acquire it: `release` then does not free the memory,
   and `read` fails if it needs Python. Only the main interpreter is supported. */
#ifndef ONNXWIRE_PYTHON_H
#define ONNXWIRE_PYTHON_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONNXWIRE_PYTHON_VERSION 1 /* grows with each addition to ow_python_api; no other struct ever changes */
#define ONNXWIRE_PYTHON_CAPSULE "onnxwire._c_api"

/* A flag of export_message: values of 64 KiB and more in files on servers are not fetched. The `data` of a piece that is
   not in memory yet is NULL; `read` fetches the bytes that it copies. */
#define OW_PYTHON_LAZY 1u

typedef struct ow_python_piece {
    const uint8_t *data;
    uint64_t size;   /* in bytes */
    uint64_t offset; /* in the encoding */
    PyObject *owner; /* borrowed: bytes, or a memoryview of the piece; another object if `data` is NULL. A reference that the
                        module adds keeps the bytes valid after `release` */
} ow_python_piece;

/* The encoding of a message. As in Arrow's C data interface, a struct whose `release` is NULL is released; it may be moved by
   copying it and setting `release` of the original to NULL. */
typedef struct ow_python_pieces {
    uint64_t size;                /* of the encoding in bytes */
    uint64_t count;               /* number of pieces */
    const ow_python_piece *items; /* in order, without gaps, none of them empty */
    void (*release)(struct ow_python_pieces *pieces);
    void *private_data;           /* for `release` */
} ow_python_pieces;

typedef struct ow_python_api {
    uint32_t version; /* of the installed onnxwire: ONNXWIRE_PYTHON_VERSION when it was built */
    uint32_t size;    /* of the struct in bytes, which grows with versions */

    /* Sets `pieces` to the encoding of a message. Returns 0; or -1 with a Python exception, `release` is then NULL.
       flags: 0 or OW_PYTHON_LAZY. Raises FieldTypeError for an object that is no message, FieldValueError for other
       flags, ClosedError, DecodeError for damaged bytes, EditError for messages nested more than 500 deep or bytes that
       change during the call, SourceError if a file was changed or can't be fetched, and MemoryError. */
    int (*export_message)(PyObject *message, unsigned flags, ow_python_pieces *pieces);

    /* Copies a range of the encoding; an `ow_read_function` for `ow_open`. context: an ow_python_pieces. Returns 0; 1 for
       a range outside of the encoding or released pieces; 2 if the bytes can't be read, for a reason that `check` raises.
       Before it copies bytes of a mapped file, it detects changes of the file by one fstat. */
    int (*read)(void *context, uint64_t offset, void *buffer, size_t size);

    /* Returns 0 if no mapped file was written to or truncated since it was opened, and no `read` returned 2; otherwise
       -1 with the exception. Call it before long work on the pieces themselves: access to the bytes of a file that was
       truncated ends the process. */
    int (*check)(const ow_python_pieces *pieces);
} ow_python_api;

/* Returns the functions, or NULL with a Python exception: ImportError if the installed onnxwire is older than this
   header. */
static inline const ow_python_api *ow_python_import(void) {
    const ow_python_api *api = (const ow_python_api *)PyCapsule_Import(ONNXWIRE_PYTHON_CAPSULE, 0);
    if (api != NULL && (api->version < ONNXWIRE_PYTHON_VERSION || api->size < sizeof *api)) {
        PyErr_Format(PyExc_ImportError,
                     "the C functions of the installed onnxwire have version %u and a struct of %u bytes, and this module "
                     "needs version %u and %u bytes; install a newer onnxwire",
                     (unsigned)api->version, (unsigned)api->size, (unsigned)ONNXWIRE_PYTHON_VERSION,
                     (unsigned)sizeof *api);
        return NULL;
    }
    return api;
}

/* Releases the pieces. No-op if they are released. */
static inline void ow_python_release(ow_python_pieces *pieces) {
    if (pieces->release != NULL) pieces->release(pieces);
}

/* Returns the piece that contains the byte at an offset; NULL if the encoding ends before it. */
static inline const ow_python_piece *ow_python_find(const ow_python_pieces *pieces, uint64_t offset) {
    uint64_t low = 0, high = pieces->count, middle;
    if (offset >= pieces->size) return NULL;
    while (high - low > 1) {
        middle = low + (high - low) / 2;
        if (pieces->items[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return &pieces->items[low];
}

/* Returns a pointer to a range of the encoding; NULL if the range is not within one piece, or is on a server;
   `read` copies such a range. A string or bytes value of 64 KiB or more is always within one piece. */
static inline const uint8_t *ow_python_bytes_at(const ow_python_pieces *pieces, uint64_t offset, uint64_t size) {
    const ow_python_piece *piece = ow_python_find(pieces, offset);
    if (piece == NULL || piece->data == NULL || size > piece->size - (offset - piece->offset)) return NULL;
    return piece->data + (offset - piece->offset);
}

#ifdef __cplusplus
}
#endif
#endif /* ONNXWIRE_PYTHON_H */
