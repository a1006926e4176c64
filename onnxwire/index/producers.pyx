# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Find the node of a graph or function that produces a value, without a Python object for each node or name."""
import os

from cpython.object cimport PyObject
from cython cimport critical_section, final
from libc.stdint cimport int32_t, uint8_t, uint64_t

from onnxwire._varint cimport MAX_DEPTH, WIRE_LEN, Record, read_record
from onnxwire.engine.document cimport Document, Span
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.overlay_index cimport Pair, find_edits
from onnxwire.engine.partial cimport N_PARTIAL
from onnxwire.engine.repeated_span cimport RepeatedSpan, SpanIterator
from onnxwire.engine.table cimport Field, Table
from onnxwire.engine.view cimport View, field_value, named_field
from onnxwire.index.interning cimport Texts, find_text, free_texts, hash_and_prefetch, intern

cdef enum:
    NONE = -1            # no node produces the name


@final
cdef class Producers:
    """A mapping from the name of a value to the index of the node that produces it.

    Created by `producers_of`. Later edits of the nodes do not change it.
    """
    cdef Texts texts
    cdef int32_t* nodes          # the index of a node, or NONE, by id of the name
    cdef int32_t capacity        # length of `nodes`
    cdef int32_t n               # number of names that some node produces

    def __dealloc__(self):
        free_texts(&self.texts)
        free(self.nodes)

    cdef int add(self, const uint8_t* p, uint64_t n, int32_t node) except -1:
        """Add a name, unless an earlier node produces it."""
        cdef int32_t n_names_before = self.texts.n
        cdef int32_t capacity
        cdef void* nodes
        cdef int32_t id = intern(&self.texts, p, n, hash_and_prefetch(&self.texts, p, n))
        if id < 0:
            raise MemoryError
        if id < n_names_before:
            return 0
        if id >= self.capacity:
            capacity = self.capacity * 2 if self.capacity else 1024
            nodes = realloc(self.nodes, <size_t>capacity * sizeof(int32_t))
            if nodes == NULL:
                raise MemoryError
            self.nodes = <int32_t*>nodes
            self.capacity = capacity
        self.nodes[id] = node
        return 0

    cdef int add_span(self, const uint8_t* p, const uint8_t* end, const Field* field, int32_t node) except -1:
        """Add the outputs of an encoded node. Return 1, or 0 if its bytes are damaged. field: NodeProto.output."""
        cdef Record record
        while p < end:
            p = read_record(p, end, MAX_DEPTH, &record)
            if p == NULL:
                return 0
            if record.tag == (<uint64_t>field.number << 3 | WIRE_LEN) and record.n:
                self.add(record.value, record.n, node)
        return 1

    cdef int add_nodes(self, RepeatedSpan nodes) except -1:
        """Add the outputs of all nodes."""
        cdef SpanIterator iterator = iter(nodes)
        cdef const Table* table = nodes.field.sub
        cdef const Field* field = &table.fields[<Py_ssize_t>(<dict><object>table.names)["output"]]
        cdef Document document
        cdef Span span
        cdef Pair edits
        cdef bytes name
        cdef int32_t index = 0
        while True:
            if not N_PARTIAL and iterator.peek(&span):
                document = nodes.document
                if (
                    not find_edits(<PyObject*>document, span.p, span.p + span.n, &edits)
                    and self.add_span(span.p, span.p + span.n, field, index)
                ):
                    iterator.skip(&span)
                    index += 1
                    continue
            # There is no next node, or its bytes can't be read here: they are edited, damaged, in several parts, or
            # perhaps not fetched yet (the process has a remote file open).
            node = iterator.next_element()
            if node is iterator:
                return 0
            for text in field_value(<View?>node, named_field(<View?>node, "output")):
                name = (<str?>text).encode("utf-8", "surrogateescape")
                if name:
                    self.add(<const uint8_t*><char*>name, <uint64_t>len(name), index)
            index += 1

    cdef int32_t id_of(self, name) except -2:
        """Return the id of a name, or -1."""
        cdef bytes encoded_name
        if type(name) is not str or not name:
            return -1
        try:
            encoded_name = (<str>name).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return -1  # the name has a surrogate that represents no byte, so it is in no file
        return find_text(&self.texts, <const uint8_t*><char*>encoded_name, <uint64_t>len(encoded_name))

    cdef int32_t find(self, name) except -2:
        """Return the index of the node that produces a name, or NONE."""
        cdef int32_t id = self.id_of(name)
        return NONE if id < 0 else self.nodes[id]

    @critical_section
    def __contains__(self, name):
        return self.find(name) != NONE

    @critical_section
    def __getitem__(self, name):
        cdef int32_t node = self.find(name)
        if node == NONE:
            raise KeyError(name)
        return node

    @critical_section
    def get(self, name, default=None):
        """Return the index of the node that produces a name, or the default."""
        cdef int32_t node = self.find(name)
        return default if node == NONE else node

    @critical_section
    def __len__(self):
        return self.n

    def __iter__(self):
        """Iterate over the names in the order of their nodes."""
        cdef int32_t id
        for id in range(1, self.texts.n):
            if self.nodes[id] != NONE:
                yield (<char*>self.texts.arena)[self.texts.start[id]:self.texts.start[id + 1]].decode(
                    "utf-8", "surrogateescape"
                )

    def keys(self):
        """Iterate over the names."""
        return iter(self)

    def items(self):
        """Iterate over pairs of a name and the index of its node."""
        for name in self:
            yield name, self.find(name)


@critical_section
def producers_of(nodes, other_definitions):
    """Return the `Producers` of the nodes of a graph or function, a repeated field of NodeProto messages.

    other_definitions: the names that inputs and initializers define. By the rules of `index/names`, a node whose output
    has such a name does not produce the value of that name.
    """
    cdef Producers producers = Producers.__new__(Producers)
    cdef int32_t id
    producers.texts.seed = int.from_bytes(os.urandom(8), "little")
    producers.add(NULL, 0, NONE)  # the id 0 is the empty string
    producers.add_nodes(<RepeatedSpan?>nodes)
    producers.n = producers.texts.n - 1
    for name in other_definitions:
        id = producers.id_of(name)
        if id > 0 and producers.nodes[id] != NONE:
            producers.nodes[id] = NONE
            producers.n -= 1
    return producers


forbid_instantiation(Producers, b"producers_of()")
