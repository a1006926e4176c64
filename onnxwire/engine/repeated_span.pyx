# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated strings, bytes and messages.

Their attributes are described in `repeated.pxd` and `repeated_span.pxd`.
The first access by index creates an index of the records, which the document caches; an access to one of the first
elements walks the records instead. The first change creates Elements.
"""
cimport cython
from cpython.object cimport PyTypeObject, destructor
from cpython.ref cimport Py_XDECREF
from cython cimport critical_section
from libc.stdint cimport uint64_t

from onnxwire._varint cimport WIRE_LEN, read_length
from onnxwire.engine.damage cimport decode_error
from onnxwire.engine.document cimport EMPTY, INDEX, files_of, part_of_bytes
from onnxwire.engine.edit cimport copy_message, depth_of, edit, field_error, iterate, read_text, set_fields
from onnxwire.engine.encode cimport encode_if_small
from onnxwire.engine.encoder cimport Encoder
from onnxwire.engine.freeze cimport FREEZE_BATCH, freeze_elements
from onnxwire.engine.free_list cimport as_object, put_free, take_free
from onnxwire.engine.header_copies cimport HIGHEST
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.overlay cimport Element, element_at, new_overlay, owned, put_value, presence_mark
from onnxwire.engine.overlay_index cimport has_edits, prefers_compact, register_edit
from onnxwire.engine.payload cimport new_payload
from onnxwire.engine.repeated cimport (
    ENDED, Slice, adjust_slice, changed_error, index_in, point_at, refresh, unpack_slice, update_count,
)
from onnxwire.engine.table cimport BYTES, FREE_LIST_CAPACITY, MESSAGE, Field, Slot
from onnxwire.engine.getters cimport assigned_message
from onnxwire.engine.view cimport (
    KEEPS_IDENTITY, Record, View, bytes_at, document_of, fill, find_overlay, make_view, new_view,
    next_usable, overlay_view, set_document, start_records, text_at, use_copies,
)

from onnxwire.errors import FieldTypeError

cdef extern from "thresholds.h":
    enum:
        MAX_WALKED_ELEMENTS "OW_MAX_WALKED_ELEMENTS"


cdef object make_element(RepeatedSpan self, const uint8_t* p, uint64_t n, PyObject* owner):
    """Return the Python object for an element; p, n and owner are those of its Element."""
    cdef Field* field = self.field
    if field.type == MESSAGE:
        if owner == NULL and not KEEPS_IDENTITY:
            return make_view(field.sub, <PyObject*>self.document, p, p + n, NULL)
        if owner == NULL:
            return new_view(field.sub, self.document, p, p + n, None)
        return assigned_message(self.message, field, p, n, <object>owner)
    if field.type == BYTES:
        return bytes_at(<PyObject*>self.document, p, n, owner)
    return text_at(self.message, p, n, owner)


# Free lists of sequences and iterators, because a loop over a repeated field creates one of each. In the objects of
# these lists, all members that own a reference to a Python object are None.
cdef PyObject* FREE_SEQUENCES[FREE_LIST_CAPACITY]
cdef PyObject* FREE_ITERATORS[FREE_LIST_CAPACITY]
cdef int N_FREE_SEQUENCES = 0
cdef int N_FREE_ITERATORS = 0


cdef object get_spans(View self, void* closure):
    """Return the sequence of a repeated field of strings, bytes or messages; closure: the Field."""
    cdef PyObject* o
    cdef Slot* slot
    fill(self)
    o = take_free(FREE_SEQUENCES, &N_FREE_SEQUENCES)
    if o == NULL:
        sequence = RepeatedSpan.__new__(RepeatedSpan)
        point_at(<RepeatedSpan>sequence, self, <Field*>closure)
        return sequence
    (<RepeatedSpan>o).first = NULL
    (<RepeatedSpan>o).end = NULL
    (<RepeatedSpan>o).is_detached = False
    if self.overlay != NULL or self.parts != NULL:
        point_at(<RepeatedSpan>o, self, <Field*>closure)
        return as_object(o)
    # As `point_at`, for an unedited message of one span.
    slot = &self.slots[(<Field*>closure).slot]
    (<RepeatedSpan>o).message = self
    (<RepeatedSpan>o).field = <Field*>closure
    (<RepeatedSpan>o).state = 0
    (<RepeatedSpan>o).n_records = 0
    if slot.p != NULL:
        (<RepeatedSpan>o).first = slot.p
        (<RepeatedSpan>o).n_records = slot.n
        (<RepeatedSpan>o).end = self.end
        (<RepeatedSpan>o).document = <Document>self.document
    return as_object(o)


cdef void dealloc_sequence(PyObject* o) noexcept:
    """Implement tp_dealloc of RepeatedSpan."""
    # Releasing a member may run other code, so the object is added to the free list last.
    (<RepeatedSpan>o).message = None
    (<RepeatedSpan>o).document = None
    (<RepeatedSpan>o).parts = None
    (<RepeatedSpan>o).index_or_numbers = None
    (<RepeatedSpan>o).edited_elements = None
    if not put_free(FREE_SEQUENCES, &N_FREE_SEQUENCES, o):
        DEALLOC_SEQUENCE(o)


cdef void dealloc_iterator(PyObject* o) noexcept:
    """Implement tp_dealloc of SpanIterator."""
    (<SpanIterator>o).sequence = None
    (<SpanIterator>o).parts = None
    if not put_free(FREE_ITERATORS, &N_FREE_ITERATORS, o):
        DEALLOC_ITERATOR(o)


cdef void* span_getter() noexcept:
    """Return the getter of repeated strings, bytes and messages."""
    return <void*>get_spans


@cython.final
@cython.no_gc
@cython.collection_type("sequence")
cdef class RepeatedSpan(Repeated):
    """A mutable sequence of strings, bytes or messages. As with protobuf, messages can't be assigned."""

    cdef Elements elements(self):
        """Return the elements if they were changed, else None."""
        return None if refresh(self) else self.edited_elements

    @critical_section
    def __len__(self):
        return self.n_records if refresh(self) else (<Elements>self.edited_elements).n

    @critical_section
    def __iter__(self):
        iterator = new_iterator()
        fill(self.message)
        start_iterator(<SpanIterator>iterator, self)
        return iterator

    cdef Spans known_index(self):
        """Return the index of an unchanged field if it was made before, else None."""
        if self.index_or_numbers is None and self.n_records > MAX_WALKED_ELEMENTS:
            self.index_or_numbers = self.document.cached(INDEX, self.first)
        # If the bytes were replaced, the cache entry may belong to another field.
        if self.index_or_numbers is not None and <uint64_t>(<Spans>self.index_or_numbers).n == self.n_records:
            return self.index_or_numbers
        return None

    cdef Spans make_index(self):
        """Return the spans of all elements of an unchanged field, cached by the document unless they are few."""
        cdef Spans index = self.known_index()
        if index is not None:
            return index
        index = self.walk()
        if index.n > MAX_WALKED_ELEMENTS:
            self.document.add_cached(INDEX, self.first, index)
        self.index_or_numbers = index
        return index

    cdef Spans walk(self):
        """Return the spans of all elements of an unchanged field."""
        cdef Spans index = Spans.__new__(Spans)
        cdef Cursor cursor
        cdef Record record
        cdef uint64_t n_left = self.n_records
        self.start(&cursor)
        while n_left:
            if next_usable(&cursor, self.field, &record) <= 0:
                raise decode_error(self.document, cursor.p, cursor.end)
            index.append(record.value, record.n)
            n_left -= 1
        return index

    cdef Elements gather(self, Py_ssize_t n_more):
        """Return the Elements of an unchanged field, with capacity for `n_more` further elements."""
        cdef Elements elements = Elements.__new__(Elements)
        cdef Spans index = self.known_index()
        cdef Cursor cursor
        cdef Record record
        cdef Py_ssize_t i
        elements.reserve(<Py_ssize_t>self.n_records + n_more)
        elements.origin = self.first
        if index is not None:
            for i in range(index.n):
                elements.add(index.items[i].p, index.items[i].n, None)
            return elements
        self.start(&cursor)
        while <uint64_t>elements.n < self.n_records:
            self.gather_run(&cursor, elements)
            if <uint64_t>elements.n == self.n_records:
                break
            if next_usable(&cursor, self.field, &record) <= 0:
                raise decode_error(self.document, cursor.p, cursor.end)
            elements.add(record.value, record.n, None)
        return elements

    cdef void gather_run(self, Cursor* cursor, Elements elements) noexcept:
        """Add the elements of consecutive records with a tag of one byte; there is capacity for all records."""
        cdef const uint8_t* p = cursor.p
        cdef const uint8_t* value
        cdef const uint8_t* end = cursor.end
        cdef Element* element = elements.items + elements.n
        cdef Element* elements_end = elements.items + self.n_records
        cdef uint32_t tag = self.field.number << 3 | WIRE_LEN
        cdef uint64_t n = 0
        if tag >= 0x80:
            return
        while element < elements_end and p < end and p[0] == tag:
            value = read_length(p + 1, end, &n)
            if value == NULL:
                break
            element.p = value
            element.n = n
            element.owner = NULL
            element += 1
            p = value + n
        cursor.p = p
        elements.n = element - elements.items

    @critical_section
    def _detach(self):
        """Store the elements in `edited_elements`, so that they no longer depend on the message."""
        self.edited_elements = self.gather(0)

    cdef object element(self, Py_ssize_t i):
        """Return the element at an index that was checked before; raise ChangedError if it no longer exists."""
        cdef Element* element
        cdef Spans index
        if self.edited_elements is not None:
            if i >= (<Elements>self.edited_elements).n:
                raise changed_error(self.field)
            element = element_at(<Elements>self.edited_elements, i)
            return make_element(self, element.p, element.n, element.owner)
        index = self.make_index()
        if i >= index.n:
            raise changed_error(self.field)
        return make_element(self, index.items[i].p, index.items[i].n, NULL)

    @critical_section
    def __getitem__(self, key):
        cdef Py_ssize_t i
        cdef Py_ssize_t k
        cdef Slice indices
        if isinstance(key, slice):
            unpack_slice(&indices, key)
            adjust_slice(&indices, len(self))
            elements = []
            for k in range(indices.n):
                i = indices.start + k * indices.step
                if i >= len(self):
                    raise changed_error(self.field)
                elements.append(self.element(i))
            return elements
        i = index_in(self.field, key, len(self))
        if i >= len(self):
            raise changed_error(self.field)
        # A walk to one of the first elements takes less time than making an index of all elements.
        if self.index_or_numbers is None and self.edited_elements is None and (
            i < MAX_WALKED_ELEMENTS or i < 4 * MAX_WALKED_ELEMENTS and self.n_records > 64 * MAX_WALKED_ELEMENTS
        ):
            for element in self:
                if i == 0:
                    return element
                i -= 1
        return self.element(i)

    @critical_section
    def _payloads(self):
        """Return a list of the Payloads of all elements of a repeated string or bytes field."""
        cdef list payloads = []  # made first, because it may run the garbage collector
        cdef Elements elements = self.elements()
        cdef Element* element
        cdef Spans index
        cdef Py_ssize_t i
        if elements is None:
            index = self.make_index()
            for i in range(index.n):
                payloads.append(new_payload(self.document, index.items[i].p, index.items[i].n, 1, b"B", None))
            return payloads
        for i in range(elements.n):
            element = element_at(elements, i)
            owner = None if element.owner == NULL else <object>element.owner
            payloads.append(new_payload(self.document, element.p, element.n, 1, b"B", owner))
        return payloads

    # --- changes

    cdef Elements start_edit(self, Py_ssize_t n_more):
        """Return the Elements for a change, with capacity for `n_more` further elements.

        All memory is allocated before `edit`, which may add an absent message to its parent: a MemoryError leaves
        everything unchanged.
        """
        cdef Elements elements
        cdef Overlay overlay
        cdef Document document
        while True:
            elements = self.elements()
            if elements is not None:
                elements.reserve(n_more)
                # An overlay with a `parent` is that of an absent message, which `edit` adds to its parent.
                if self.is_detached or (<Overlay>self.message.overlay).parent == NULL:
                    return elements
                edit(self.message)
                if self.elements() is elements:
                    return elements
                continue
            document = self.document
            elements = self.gather(n_more)
            overlay = edit(self.message)
            # The allocations may have run other code, which may have changed the field.
            if (
                self.elements() is None and self.document is document and self.first == elements.origin
                and edit(self.message) is overlay
            ):
                self.store_elements(overlay, elements)
                return elements

    cdef int store_elements(self, Overlay overlay, Elements elements) except -1:
        """Store Elements in the overlay of the message; they replace the field's records."""
        elements.origin = self.first
        self.edited_elements = elements
        self.document = document_of(self.message)
        put_value(overlay, self.field, presence_mark() if elements.n else NULL, elements.n, <PyObject*>elements)
        return 0

    cdef object convert(self, values):
        return convert_values(self.message, self.field, values)

    cdef int splice(self, Py_ssize_t start, Py_ssize_t stop, values) except -1:
        cdef Elements incoming = values
        cdef Elements elements
        cdef Elements removed = None
        cdef PyObject* removed_owner = NULL
        cdef Py_ssize_t n_added = 0 if incoming is None else incoming.n
        cdef Py_ssize_t n_removed = stop - start
        cdef Py_ssize_t i
        if n_removed > 1:
            removed = Elements.__new__(Elements)
            removed.reserve(n_removed)
        elements = self.start_edit(n_added)
        if stop > elements.n:
            raise changed_error(self.field)
        if n_removed == 1:
            removed_owner = element_at(elements, start).owner
        elif n_removed:
            for i in range(n_removed):
                removed.items[i] = element_at(elements, start + i)[0]
            removed.n = n_removed
        elements.resize_slice(start, stop, n_added)
        if n_added:
            for i in range(n_added):
                element_at(elements, start + i)[0] = incoming.items[i]
            incoming.n = 0  # their references were moved
        update_count(self, elements.n)
        # Release removed elements last: their destructors may run other code.
        Py_XDECREF(removed_owner)
        return 0

    cdef int replace(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n, values) except -1:
        cdef Elements incoming = values
        cdef Elements elements = self.start_edit(0)
        cdef Element* element
        cdef Element old
        cdef Py_ssize_t i
        if n and max(start, start + (n - 1) * step) >= elements.n:
            raise changed_error(self.field)
        for i in range(n):
            element = element_at(elements, start + i * step)
            old = element[0]
            element[0] = incoming.items[i]
            incoming.items[i] = old
        return 0

    @critical_section
    def _arrange(self, order, Py_ssize_t n):
        """Keep the elements at the distinct indices in `order`, in that order; raise if there are not n elements."""
        # Code that may run other code, such as the garbage collector for a new list, precedes the change.
        # CPython 3.11 leaks a list if list() has no memory to copy it.
        cdef list indices = (<list>order)[:] if type(order) is list else list(order)
        cdef Elements arranged = Elements.__new__(Elements)
        cdef Elements elements
        cdef Py_ssize_t i
        cdef Py_ssize_t index
        arranged.reserve(len(indices))
        elements = self.start_edit(0)
        # The iterator of `order` may have changed the elements.
        if elements.n != n:
            raise changed_error(self.field)
        for i in range(len(indices)):
            index = indices[i]
            arranged.items[i] = element_at(elements, index)[0]
            element_at(elements, index).owner = NULL
        arranged.n = len(indices)
        # `arranged` releases the removed elements last: their destructors may run other code.
        elements.exchange_items(arranged)
        update_count(self, elements.n)

    @critical_section
    def reverse(self):
        """Reverse the elements in place."""
        cdef Elements elements = self.start_edit(0)
        cdef Element element
        cdef Py_ssize_t i
        elements.close_gap()
        for i in range(elements.n // 2):
            element = elements.items[i]
            elements.items[i] = elements.items[elements.n - 1 - i]
            elements.items[elements.n - 1 - i] = element
        elements.n_examined = 0

    @critical_section
    def extend(self, values):
        """Add all values of an iterable at the end; messages are copied.

        Raises TypeError or ValueError for a value that the field can't store; then nothing is added.
        """
        cdef Elements incoming = convert_values(self.message, self.field, values)
        cdef Overlay overlay
        if incoming.n == 0:
            if not self.is_detached:
                edit(self.message)
            return
        if len(self) == 0 and self.edited_elements is None:
            overlay = edit(self.message)
            if self.elements() is None and self.n_records == 0 and edit(self.message) is overlay:
                self.store_elements(overlay, incoming)
                return
        n = len(self)
        self.splice(n, n, incoming)

    @critical_section
    def append(self, value):
        """Add a value at the end; a message is copied, and the copy is returned.

        Raises TypeError or ValueError for a value that the field can't store.
        """
        cdef Elements elements
        cdef const uint8_t* p = NULL
        cdef uint64_t size = 0
        cdef Py_ssize_t n
        if self.field.type == MESSAGE:
            n = len(self)
            self.splice(n, n, convert_values(self.message, self.field, (value,)))
            return self.element(n)
        owner = read_text(self.field, value, &p, &size)
        if self.edited_elements is None and self.message.overlay == NULL and self.append_first(p, size, owner):
            return None
        elements = self.start_edit(1)
        elements.add(p, size, owner)
        update_count(self, elements.n)
        return None

    cdef bint append_first(self, const uint8_t* p, uint64_t size, owner) except -1:
        """Append a string or bytes as the first edit of the message, without an overlay; return whether it did so."""
        cdef View message = self.message
        cdef Elements elements
        cdef Slot slot
        if message.parts != NULL or self.elements() is not None or not prefers_compact():
            return False
        elements = self.gather(1)
        elements.add(p, size, owner)
        slot = Slot(presence_mark(), <uint64_t>elements.n)
        # The allocations may have run other code, which may have changed the field.
        if self.elements() is not None or message.overlay != NULL or self.first != elements.origin:
            return False
        if not register_edit(
            <Document>message.document, message.table, message.start, message.end, message.flags, self.field, &slot,
            <PyObject*>elements
        ):
            return False
        self.edited_elements = elements
        self.document = <Document>message.document
        return True

    @critical_section
    def add(self, **fields):
        """Add a new message at the end and return it.

        fields: as for the constructor of the message. Raises the errors of the constructor, and AttributeError for a
        field of strings or bytes.
        """
        cdef Elements elements
        cdef Elements _removed_overlays = None
        cdef Overlay overlay
        if self.field.type != MESSAGE:
            raise AttributeError(f"{(<object>self.field.descriptor).full_name}: only messages are added; use append")
        view = overlay_view(self.field.sub, EMPTY, new_overlay(self.field.sub, depth_of(self.message) + 1))
        if fields:
            set_fields(view, fields)
        elements = self.start_edit(1)
        overlay = <Overlay>(<View>view).overlay
        elements.n_examined = min(elements.n_examined, elements.n)
        if elements.n - elements.n_examined > FREEZE_BATCH:
            _removed_overlays = freeze_elements(elements, self.message)  # released last: destructors may run other code
        elements.add(presence_mark(), 0, overlay)
        update_count(self, elements.n)
        if not KEEPS_IDENTITY:
            set_document(<View>view, self.message.document)
            (<View>view).epoch = (<Document>self.message.document).epoch
            return view
        return overlay_view(self.field.sub, <Document>self.message.document, overlay)


cdef Elements convert_values(View message, Field* field, values):
    """Convert the values of an iterable to Elements, with checks; messages are copied."""
    cdef Elements incoming = Elements.__new__(Elements)
    cdef const uint8_t* p = NULL
    cdef uint64_t n = 0
    cdef uint32_t depth
    cdef View source
    # Consecutive messages of one document share one `Document.fork`. last: the end of the last of these messages.
    cdef Document document = None
    cdef Document fork = None
    cdef const uint8_t* last = NULL
    # Small edited messages are encoded into one document, which takes less memory and time than copies of overlays.
    cdef Encoder encoder = None
    cdef list encoded = []
    cdef Document source_document = None  # the document of one of these messages; all have the same external files
    if field.type != MESSAGE:
        for value in iterate(field, values):
            owner = read_text(field, value, &p, &n)
            incoming.add(p, n, owner)
        return incoming
    depth = depth_of(message)
    for value in iterate(field, values):
        if type(value) is not <object>field.sub.cls:
            raise field_error(
                field, FieldTypeError, f"expected {(<object>field.sub.cls).__name__}, found {type(value).__name__}"
            )
        source = <View>value
        if find_overlay(source) and (
            source_document is None or files_of(source_document) is files_of(document_of(source))
        ):
            encoder = encoder or Encoder(False)
            data = encode_if_small(source, encoder)
            if data is not None:
                # `locate_encoded` sets the element's address later.
                encoded.append(data)
                source_document = document_of(source)
                incoming.add(NULL, <uint64_t>len(data), None)
                continue
        elif (
            fork is not None and <Document>source.document is document and source.start > last
            and source.overlay == NULL and source.parts == NULL and not has_edits(document, source.start, source.end)
        ):
            incoming.add(source.start, <uint64_t>(source.end - source.start), fork)
            last = source.end
            continue
        owner = copy_message(source, depth, &p, &n)
        incoming.add(p, n, owner)
        fork = None
        if isinstance(owner, Document) and (<Document>owner).backing is (<Document>source.document).backing:
            document = <Document>source.document
            fork = owner
            last = p + n
    if encoded:
        # Separate the messages by a byte: an empty message at the end of one would else have the next one's address.
        locate_encoded(incoming, part_of_bytes(b"\0".join(encoded), None, depth + 1, source_document))
    return incoming


cdef int locate_encoded(Elements elements, Document document) except -1:
    """Set the addresses of the elements that were encoded into a document, one after another."""
    cdef const uint8_t* p = document.start
    cdef Py_ssize_t i
    for i in range(elements.n):
        if elements.items[i].p == NULL:
            elements.items[i].owner = owned(document)
            elements.items[i].p = p
            p += elements.items[i].n + 1
    return 0


cdef object new_iterator():
    """Return an iterator without a sequence, which `start_iterator` sets."""
    cdef PyObject* o = take_free(FREE_ITERATORS, &N_FREE_ITERATORS)
    if o == NULL:
        return SpanIterator.__new__(SpanIterator)
    (<SpanIterator>o).first = NULL
    (<SpanIterator>o).document = NULL
    (<SpanIterator>o).epoch = 0
    (<SpanIterator>o).i = 0
    return as_object(o)


cdef void start_iterator(SpanIterator self, RepeatedSpan sequence) noexcept:
    """Set a new iterator to the first element of a sequence, whose message is filled."""
    self.sequence = sequence
    self.tag = sequence.field.number << 3 | WIRE_LEN if sequence.field.number < 16 else 0
    # If these are the records of an unedited message, the first step needs no `refresh` and no `seek`.
    if (
        sequence.message.overlay == NULL and sequence.edited_elements is None and sequence.state == 0
        and sequence.message.slots[sequence.field.slot].p == sequence.first
        and (sequence.first == NULL or <PyObject*>sequence.document == sequence.message.document)
    ):
        self.epoch = sequence.message.epoch
        self.document = sequence.message.document
        if sequence.first != NULL:
            self.first = sequence.first
            if sequence.parts is not None:
                self.parts = sequence.parts
                sequence.start(&self.cursor)
            else:
                start_records(&self.cursor, sequence.first, sequence.end, NULL, NULL)
                use_copies(&self.cursor, sequence.document)


@cython.final
@cython.no_gc
cdef class SpanIterator:
    """The iterator of a RepeatedSpan."""

    @critical_section
    def __iter__(self):
        return self

    @critical_section
    def __length_hint__(self):
        return 0 if self.sequence is None or self.i == ENDED else max(len(self.sequence) - self.i, 0)

    def __next__(self):
        element = self.next_element()
        if element is self:
            raise StopIteration
        return element

    @critical_section
    cdef object next_element(self):
        """Return the next element, or the iterator itself at the end, which is faster than an exception."""
        cdef const uint8_t* p
        cdef uint64_t n = 0
        cdef bint is_in_records
        if not is_message_unchanged(self):
            if self.sequence is None or self.i == ENDED:
                return self
            is_in_records = self.follow_message()
            # Other code may have run, and used the iterator.
            if self.sequence is None:
                return self
            if not is_in_records:
                return self.next_edited()
        if <uint64_t>self.i >= self.sequence.n_records:
            self.i = ENDED
            self.sequence = None
            return self
        # The common case: the next record is of the same field, with a tag of one byte.
        if self.cursor.p < self.cursor.first_copy and self.cursor.p < self.cursor.end and self.cursor.p[0] == self.tag:
            p = read_length(self.cursor.p + 1, self.cursor.end, &n)
            if p != NULL:
                self.i += 1
                self.cursor.p = p + n
                return make_element(self.sequence, p, n, NULL)
        return self.next_record()

    cdef bint follow_message(self) except -1:
        """Follow changes of the message since the last step; return whether the elements are records."""
        cdef RepeatedSpan sequence = self.sequence
        cdef View message = sequence.message
        fill(message)
        if message.epoch != self.epoch and self.reads_same_records():
            self.epoch = message.epoch
        # Like a list's iterator: the next element is the sequence's current element at the next index.
        if (
            message.overlay != NULL or sequence.edited_elements is not None
            or message.epoch != self.epoch or message.document != self.document
        ):
            if not refresh(sequence):
                return False
            self.seek()
        return True

    cdef object next_record(self):
        """Return the element of the next record of the field, which may follow other records."""
        cdef RepeatedSpan sequence = self.sequence
        cdef Record record
        if next_usable(&self.cursor, sequence.field, &record) <= 0:
            raise decode_error(sequence.document, self.cursor.p, self.cursor.end)
        self.i += 1
        return make_element(sequence, record.value, record.n, NULL)

    cdef object next_edited(self):
        """Return the next element of `edited_elements`, as `next_element` does."""
        cdef RepeatedSpan sequence = self.sequence
        cdef Elements elements = sequence.edited_elements
        cdef Element* element
        cdef Py_ssize_t i = self.i
        if i >= elements.n:
            self.i = ENDED
            self.sequence = None
            return self
        self.i += 1
        element = element_at(elements, i)
        return make_element(sequence, element.p, element.n, element.owner)

    cdef bint peek(self, Span* element) except -1:
        """Locate the next element without making a view.

        Return False at the end, if the element is not a span of the message's bytes, or if no intact record of the
        field with a tag of one byte is at the cursor.
        """
        cdef RepeatedSpan sequence = self.sequence
        cdef Elements elements
        if sequence is None or self.i == ENDED:
            return False
        fill(sequence.message)
        if (
            sequence.message.overlay != NULL or sequence.edited_elements is not None
            or sequence.message.epoch != self.epoch or sequence.message.document != self.document
        ):
            if not refresh(sequence):
                elements = sequence.edited_elements
                if self.i >= elements.n or element_at(elements, self.i).owner != NULL:
                    return False
                element.p = element_at(elements, self.i).p
                element.n = element_at(elements, self.i).n
                return True
            self.seek()
        if <uint64_t>self.i >= sequence.n_records or self.cursor.p >= self.cursor.end or self.cursor.p[0] != self.tag:
            return False
        element.p = read_length(self.cursor.p + 1, self.cursor.end, &element.n)
        return element.p != NULL

    cdef void skip(self, const Span* element) noexcept:
        """Skip the element that `peek` has located."""
        self.i += 1
        if self.sequence.edited_elements is None:
            self.cursor.p = element.p + element.n

    cdef Py_ssize_t skip_until(self, const Span* element, const uint8_t* limit) noexcept:
        """Skip the element that `peek` has located, and the elements directly after it that end before `limit`.

        Only the located element is skipped if the elements were edited. Return the number of skipped elements. The
        limit is in the bytes of the message.
        """
        cdef Py_ssize_t start = self.i
        cdef uint64_t n
        cdef const uint8_t* p
        self.skip(element)
        if self.sequence.edited_elements is not None:
            return 1
        while (
            <uint64_t>self.i < self.sequence.n_records and self.cursor.p < self.cursor.end
            and self.cursor.p[0] == self.tag
        ):
            p = read_length(self.cursor.p + 1, self.cursor.end, &n)
            if p == NULL or p + n >= limit:
                break
            self.cursor.p = p + n
            self.i += 1
        return self.i - start

    cdef bint reads_same_records(self) noexcept:
        """Return whether the message, which is filled, has the records that the cursor is in, and no edits."""
        cdef RepeatedSpan sequence = self.sequence
        cdef View message = sequence.message
        return (
            message.overlay == NULL and sequence.edited_elements is None and sequence.state == 0
            and message.document == self.document and self.first != NULL and self.first == sequence.first
            and message.slots[sequence.field.slot].p == self.first
        )

    cdef int seek(self) except -1:
        """Set the cursor to the next record of the sequence."""
        cdef RepeatedSpan sequence = self.sequence
        cdef View message = sequence.message
        cdef Record record
        cdef Py_ssize_t _i
        self.epoch = message.epoch
        self.document = message.document
        self.cursor.first_copy = HIGHEST
        if sequence.document is not None:
            use_copies(&self.cursor, sequence.document)
        if self.first == sequence.first and self.first != NULL:
            return 0
        self.first = sequence.first
        self.parts = sequence.parts
        sequence.start(&self.cursor)
        for _i in range(self.i):
            if next_usable(&self.cursor, sequence.field, &record) <= 0:
                raise decode_error(sequence.document, self.cursor.p, self.cursor.end)
        return 0


cdef inline bint is_message_unchanged(SpanIterator self) noexcept:
    """Return whether the message is filled, unedited, and unchanged since the last step."""
    return (
        self.sequence is not None and self.sequence.edited_elements is None
        and self.sequence.message.epoch == self.epoch and self.sequence.message.overlay == NULL
        and self.sequence.message.document == self.document
        and (<Document>self.sequence.message.document).epoch == self.epoch
    )


cdef destructor DEALLOC_SEQUENCE = (<PyTypeObject*>RepeatedSpan).tp_dealloc
cdef destructor DEALLOC_ITERATOR = (<PyTypeObject*>SpanIterator).tp_dealloc
(<PyTypeObject*>RepeatedSpan).tp_dealloc = dealloc_sequence
(<PyTypeObject*>SpanIterator).tp_dealloc = dealloc_iterator
# The public module, for pickles and reprs.
(<PyTypeObject*>RepeatedSpan).tp_name = b"onnxwire.RepeatedSpan"
forbid_instantiation(RepeatedSpan, b"reading a repeated field of a message")
forbid_instantiation(SpanIterator, b"iter() of a repeated field")
