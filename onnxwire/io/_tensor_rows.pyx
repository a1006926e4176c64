# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The rows of `tensors()`: descriptions of many tensors in 32 bytes each, plus path, name and shape."""
from cython cimport critical_section, final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from onnxwire.engine.document cimport Document
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.search cimport Paths, Search
from onnxwire.engine.texts cimport new_text
from onnxwire.engine.view cimport View
from onnxwire.tensor.payload_layout cimport ABSENT, Layout, TensorSlots, find_slots, payload_size, read_row

from os.path import join

cdef enum:
    BATCH_ROWS = 1024        # rows per call of `read_batch`; other threads can run between the calls


cdef struct Row:
    int64_t nbytes
    int64_t offset           # -1 for None
    uint32_t path            # index of the path in `paths`
    uint32_t file            # index of the file and location in `files`
    int32_t data_type


@final
cdef class TensorRows:
    """The descriptions of tensors, as tuples of the fields of TensorInfo.

    describe: a function that returns the fields except the path, called for tensors that `read_row` can't read.
    paths: the Paths of the Search that finds the tensors; None for tensors that all have the path "".
    """
    cdef Paths paths
    cdef object describe
    cdef Row* rows
    cdef Py_ssize_t n            # number of rows
    cdef Py_ssize_t capacity
    cdef list names
    cdef list shapes
    cdef list files              # the distinct pairs of file and location
    cdef dict file_indexes       # (file, location) -> index in `files`
    cdef TensorSlots slots
    cdef bint is_readable        # whether `read_row` can read tensors of the table of `slots`
    cdef Document document       # the document of the last tensor that `read_row` read, or None
    cdef Py_ssize_t inline_file  # index in `files` of the file of `document`, or -1
    cdef Py_ssize_t no_file      # index in `files` of (None, None), or -1
    cdef Py_ssize_t last_file    # index in `files` of `last_location`, or -1
    cdef bytes last_location     # the location of the last external tensor, in UTF-8

    @critical_section
    def __cinit__(self, describe, Paths paths=None):
        self.paths = paths
        self.describe = describe
        self.names = []
        self.shapes = []
        self.files = []
        self.file_indexes = {}
        self.inline_file = self.no_file = self.last_file = -1

    @critical_section
    def __dealloc__(self):
        free(self.rows)

    @critical_section
    def __len__(self):
        return self.n

    @critical_section
    def read_batch(self, Search search not None):
        """Add up to BATCH_ROWS tensors of a search. Return whether there may be more."""
        cdef View view
        cdef Py_ssize_t _i
        for _i in range(BATCH_ROWS):
            view = search.next_result()
            if view is None:
                return False
            self.append(view, <uint32_t>search.number)
        return True

    @critical_section
    def add(self, View tensor not None):
        """Add a tensor. If there are `paths`, its path is the first of them."""
        self.append(tensor, 0)

    cdef int append(self, View view, uint32_t path) except -1:
        """Append the row of a tensor. path: the index of its path in `paths`."""
        cdef Layout layout
        cdef Row row = Row(0, -1, path, 0, 0)
        cdef const uint8_t* raw_data
        cdef Py_ssize_t capacity
        cdef Row* new_rows
        if view.table != self.slots.table:
            self.is_readable = find_slots(&self.slots, view.table)
        if self.is_readable and read_row(view, &self.slots, &layout, self.names, self.shapes):
            row.data_type = layout.data_type
            row.nbytes = payload_size(&layout)
            if layout.location != NULL:
                row.offset = 0 if layout.offset == ABSENT else max(layout.offset, <int64_t>-1)
            elif layout.has_raw and (<Document>view.document).root is not None:
                raw_data = view.slots[self.slots.raw_data].p
                row.offset = raw_data - (<Document>view.document).start
            row.file = <uint32_t>self.file_index_of(view, &layout)
        else:
            name, data_type, shape, nbytes, file, offset, location = self.describe(view)
            self.names.append(name)
            self.shapes.append(shape)
            row.data_type = data_type
            row.nbytes = nbytes
            row.offset = -1 if offset is None else offset
            row.file = <uint32_t>self.add_file(file, location)
        if self.n == self.capacity:
            capacity = self.capacity + self.capacity // 2 + 16
            new_rows = <Row*>realloc(self.rows, <size_t>capacity * sizeof(Row))
            if new_rows == NULL:
                raise MemoryError
            self.rows = new_rows
            self.capacity = capacity
        self.rows[self.n] = row
        self.n += 1
        return 0

    cdef Py_ssize_t file_index_of(self, View view, const Layout* layout) except -1:
        """Return the index in `files` for a tensor that was read by `read_row`."""
        cdef Document document = <Document>view.document
        cdef uint64_t n = layout.location_size
        cdef Document _old_document = self.document  # released last: its destructor may close the document of `layout`
        if document is not self.document:
            self.document = document
            self.inline_file = self.last_file = -1
        if layout.location != NULL:
            if (
                self.last_file < 0 or <uint64_t>len(self.last_location) != n
                or memcmp(<const char*>self.last_location, layout.location, n) != 0
            ):
                self.last_location = (<const char*>layout.location)[:n]
                location = new_text(<const uint8_t*><const char*>self.last_location, n)
                folder = getattr(document.files, "folder", None)
                self.last_file = self.add_file(location if folder is None else join(folder, location), location)
            return self.last_file
        if layout.has_raw and document.root is not None:
            if self.inline_file < 0:
                self.inline_file = self.add_file(document.name, None)
            return self.inline_file
        if self.no_file < 0:
            self.no_file = self.add_file(None, None)
        return self.no_file

    cdef Py_ssize_t add_file(self, file, location) except -1:
        """Return the index of a file and location in `files`; append them if they are new."""
        pair = (file, location)
        file_index = self.file_indexes.get(pair)
        if file_index is None:
            file_index = len(self.files)
            self.files.append(pair)
            self.file_indexes[pair] = file_index
        return file_index

    @critical_section
    def __getitem__(self, Py_ssize_t i):
        """Return the tuple of a row; raise IndexError unless 0 <= i < len."""
        cdef Row row
        if not 0 <= i < self.n:
            raise IndexError(i)
        row = self.rows[i]
        file, location = self.files[row.file]
        return (
            "" if self.paths is None else self.paths[row.path], self.names[i], row.data_type, self.shapes[i],
            row.nbytes, file, None if row.offset < 0 else row.offset, location,
        )
