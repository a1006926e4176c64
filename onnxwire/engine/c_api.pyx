# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The capsule `onnxwire._c_api`: encodings of messages as pieces of memory, for extension modules in C.

`include/onnxwire_python.h` describes the functions. The pieces are those that a save writes (`engine/write.pyx`).
Pieces in the memory of a document pin the document until they are released.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_INCREF
from cython cimport critical_section, final, no_gc
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from onnxwire.engine.document cimport Document, OwFileState, ow_file_state
from onnxwire.engine.encoder cimport Piece
from onnxwire.engine.foreign_thread cimport Entry, enter_python, leave_python, release_reference
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport calloc, free, realloc
from onnxwire.engine.partial cimport N_PARTIAL, fetch, is_resident
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.view cimport View

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)

cdef extern from "../include/onnxwire_python.h" nogil:
    enum:
        ONNXWIRE_PYTHON_VERSION
        OW_PYTHON_LAZY
    const char* ONNXWIRE_PYTHON_CAPSULE
    ctypedef struct ow_python_piece:
        const uint8_t* data
        uint64_t size
        uint64_t offset
        PyObject* owner
    ctypedef struct ow_python_pieces:
        uint64_t size
        uint64_t count
        const ow_python_piece* items
        void (*release)(ow_python_pieces*) noexcept nogil
        void* private_data
    ctypedef struct ow_python_api:
        uint32_t version
        uint32_t size
        int (*export_message)(PyObject*, unsigned, ow_python_pieces*) except -1
        int (*read)(void*, uint64_t, void*, size_t) noexcept nogil
        int (*check)(const ow_python_pieces*) except -1
    const ow_python_piece* ow_python_find(const ow_python_pieces* pieces, uint64_t offset)

from onnxwire.engine.write import encode_pieces
from onnxwire.errors import FieldTypeError, FieldValueError


cdef struct File:
    # A mapped file that contains bytes of pieces, and its state when it was opened.
    PyObject* document           # borrowed; an object in `Export.owners` keeps it alive
    int descriptor
    OwFileState state


cdef struct PieceBytes:
    # The bytes of a piece, resident or not.
    const uint8_t* p
    uint32_t file_number         # index in `files` + 1; 0 if the bytes are not in a mapped file


cdef struct ReadContext:
    # The data that `read` uses without the GIL. Constant until the release.
    PyObject* owner              # the Export
    const ow_python_piece* items
    const PieceBytes* piece_bytes
    const File* files


@final
@no_gc
cdef class Export:
    """The owner of the pieces of one encoding; the struct `ow_python_pieces` has the only reference."""
    cdef ReadContext read_context
    cdef ow_python_piece* items
    cdef PieceBytes* piece_bytes
    cdef Py_ssize_t n            # number of pieces
    cdef File* files
    cdef uint32_t n_files
    cdef list owners             # the owner of each piece: bytes, memoryview, or Payload if the piece's `data` is NULL
    cdef object error            # the error of the first `check_and_fetch` that failed

    @critical_section
    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n):
            if self.items[i].data == NULL:
                (<Payload>self.owners[i]).document.pins -= 1
        free(self.items)
        free(self.piece_bytes)
        free(self.files)

    cdef int fill(self, list parts, bint is_lazy) except -1:
        """Create the pieces of an encoding from `parts`, which are bytes objects and Pieces.

        is_lazy: whether bytes that are not resident are fetched later, by `read`, and not now; the `data` of
        their pieces is NULL.
        The document of a Piece is pinned when the Piece is added, because other code may run.
        """
        cdef size_t capacity = <size_t>len(parts) or 1
        cdef uint64_t offset = 0
        self.items = <ow_python_piece*>calloc(capacity, sizeof(ow_python_piece))
        self.piece_bytes = <PieceBytes*>calloc(capacity, sizeof(PieceBytes))
        if self.items == NULL or self.piece_bytes == NULL:
            raise MemoryError
        self.owners = []
        for part in parts:
            self.add(part if isinstance(part, bytes) else (<Piece>part).payload, offset, is_lazy)
            offset += self.items[self.n - 1].size
        self.read_context.owner = <PyObject*>self
        self.read_context.items = self.items
        self.read_context.piece_bytes = self.piece_bytes
        self.read_context.files = self.files
        return 0

    cdef int add(self, part, uint64_t offset, bint is_lazy) except -1:
        """Add a piece, which is bytes or a Payload of bytes, at an offset of the encoding; is_lazy: as for `fill`."""
        cdef ow_python_piece* item = &self.items[self.n]
        cdef PieceBytes* piece_bytes = &self.piece_bytes[self.n]
        cdef Document document = None
        cdef bint is_absent = False
        cdef Payload payload
        item.offset = offset
        if isinstance(part, bytes):
            owner = part
            piece_bytes.p = <const uint8_t*>PyBytes_AS_STRING(part)
            item.size = <uint64_t>PyBytes_GET_SIZE(part)
        else:
            payload = part
            document = payload.document
            piece_bytes.p = payload.p
            item.size = <uint64_t>payload.n
            is_absent = (
                is_lazy and N_PARTIAL > 0 and document is not None and not is_resident(piece_bytes.p, item.size)
            )
            owner = payload if is_absent else PyMemoryView_FromObject(payload)
        self.owners.append(owner)
        if document is not None:
            piece_bytes.file_number = self.file_number_of(document)
        if is_absent:
            document.check_open()
            document.pins += 1
        else:
            item.data = piece_bytes.p
        item.owner = <PyObject*>owner
        self.n += 1
        return 0

    cdef uint32_t file_number_of(self, Document document) except? 0xFFFFFFFF:
        """Return the index + 1 in `files` of the mapped file with a document's bytes; 0 if no mapped file has them.

        Adds the file, unless it is the last one in `files`.
        """
        cdef size_t n = self.n_files
        cdef File* files
        if document.backing is None or document.backing.is_private or document.backing.descriptor < 0:
            return 0
        # Most pieces are in the same file as the previous piece.
        if n and self.files[n - 1].document == <PyObject*>document:
            return self.n_files
        if n & (n - 1) == 0:  # `files` is full: its capacity is 0 or a power of two
            files = <File*>realloc(self.files, (2 * n or 1) * sizeof(File))
            if files == NULL:
                raise MemoryError
            self.files = files
        self.files[n].document = <PyObject*>document
        self.files[n].descriptor = document.backing.descriptor
        self.files[n].state = document.backing.state
        self.n_files += 1
        return self.n_files

    @critical_section
    cdef bint check_and_fetch(self, Py_ssize_t i, uint64_t start, uint64_t n) noexcept:
        """Check the file of a piece, and fetch n bytes of the piece from `start` on.

        Returns whether that succeeded; the first failure is stored in `error`.
        """
        cdef Document document
        try:
            owner = self.owners[i]
            document = (<Payload>(owner if isinstance(owner, Payload) else owner.obj)).document
            document.check_open()
            document.check_unchanged()
            fetch(self.piece_bytes[i].p + start, n)
            return True
        except BaseException as error:
            if self.error is None:
                self.error = error
            return False

    @critical_section
    cdef int check(self) except -1:
        """Raise the error of the first failed `check_and_fetch`, or of a file that was changed."""
        cdef uint32_t i
        if self.error is not None:
            raise self.error
        for i in range(self.n_files):
            (<Document>self.files[i].document).check_unchanged()
        return 0


forbid_instantiation(Export, b"a call of the capsule onnxwire._c_api")


@critical_section
cdef Export export_of(object message, bint is_lazy, uint64_t* size):
    """Encode a message; return the owner of its pieces, and in size[0] the length of the encoding in bytes."""
    cdef Export export = Export.__new__(Export)
    size[0], parts = encode_pieces(message, False, None)
    export.fill(parts, is_lazy)
    return export


# The functions of the capsule; `include/onnxwire_python.h` documents them.

cdef int export_message(PyObject* message, unsigned flags, ow_python_pieces* pieces) except -1:
    """Set `pieces` to the encoding of a message."""
    cdef Export export
    cdef uint64_t size
    memset(pieces, 0, sizeof(ow_python_pieces))
    if message == NULL or not isinstance(<object>message, View):
        name = "NULL" if message == NULL else type(<object>message).__name__
        raise FieldTypeError(f"expected a message of onnxwire, not {name}")
    if flags & ~<unsigned>OW_PYTHON_LAZY:
        raise FieldValueError(f"flags must be 0 or OW_PYTHON_LAZY, not {flags}")
    export = export_of(<object>message, flags & OW_PYTHON_LAZY, &size)
    Py_INCREF(export)
    pieces.size = size
    pieces.count = <uint64_t>export.n
    pieces.items = export.items
    pieces.release = release
    pieces.private_data = &export.read_context
    return 0


cdef void release(ow_python_pieces* pieces) noexcept nogil:
    cdef ReadContext* read_context = <ReadContext*>pieces.private_data
    memset(pieces, 0, sizeof(ow_python_pieces))
    if read_context != NULL:
        release_reference(read_context.owner)


cdef bint make_readable(
    const ReadContext* read_context, const ow_python_piece* item, uint64_t start, uint64_t n
) noexcept nogil:
    """Fetch n bytes of a piece from `start` on if they are not resident, and check that their file is unchanged.

    Returns whether the bytes may be copied.
    """
    cdef Py_ssize_t i = item - read_context.items
    cdef uint32_t file_number = read_context.piece_bytes[i].file_number
    cdef OwFileState state
    cdef Entry entry
    cdef bint is_fetched = False
    if item.data != NULL:
        if file_number == 0:
            return True
        if ow_file_state(read_context.files[file_number - 1].descriptor, &state) == 0:
            if memcmp(&state, &read_context.files[file_number - 1].state, sizeof(state)) == 0:
                return True
    if enter_python(&entry):
        with gil:
            is_fetched = (<Export>read_context.owner).check_and_fetch(i, start, n)
        leave_python(&entry)
    return is_fetched


cdef int read(void* context, uint64_t offset, void* buffer, size_t size) noexcept nogil:
    """Copy a range of the encoding. Return 0; 1 for an invalid range or released pieces; 2 if reading fails."""
    cdef const ow_python_pieces* pieces = <const ow_python_pieces*>context
    cdef const ReadContext* read_context = <const ReadContext*>pieces.private_data
    cdef const ow_python_piece* item
    cdef uint8_t* target = <uint8_t*>buffer
    cdef uint64_t start, n
    if read_context == NULL or offset > pieces.size or size > pieces.size - offset:
        return 1
    item = ow_python_find(pieces, offset)
    while size:
        start = offset - item.offset
        n = min(item.size - start, <uint64_t>size)
        if not make_readable(read_context, item, start, n):
            return 2
        memcpy(target, read_context.piece_bytes[item - read_context.items].p + start, <size_t>n)
        target += n
        offset += n
        size -= <size_t>n
        item += 1
    return 0


cdef int check(const ow_python_pieces* pieces) except -1:
    if pieces.private_data == NULL:
        raise FieldValueError("the pieces were released")
    return (<Export>(<ReadContext*>pieces.private_data).owner).check()


cdef ow_python_api FUNCTIONS
FUNCTIONS.version = ONNXWIRE_PYTHON_VERSION
FUNCTIONS.size = sizeof(ow_python_api)
FUNCTIONS.export_message = export_message
FUNCTIONS.read = read
FUNCTIONS.check = check
CAPSULE = PyCapsule_New(&FUNCTIONS, ONNXWIRE_PYTHON_CAPSULE, NULL)
