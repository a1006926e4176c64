# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Creates the Python class of every message of a schema from its table."""
cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject
from cython cimport critical_section
from libc.stdint cimport uint32_t

from onnxwire.engine.edit cimport new_message, set_fields, singular_setter
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.message cimport Message
from onnxwire.engine.numbers cimport RepeatedScalar, get_numbers
from onnxwire.engine.repeated_span cimport RepeatedSpan, span_getter
from onnxwire.engine.section cimport FREE_THREADED
from onnxwire.engine.table cimport MESSAGE, Field, Slot, Table, TableOwner, TableRef
from onnxwire.engine.getters cimport singular_getter
from onnxwire.engine.view cimport View, dealloc_view, table_of

from collections.abc import MutableSequence
from types import MethodDescriptorType

from onnxwire.errors import FieldAttributeError, FieldTypeError

ctypedef object (*Getter)(View view, void* field)
ctypedef int (*Setter)(View view, PyObject* value, void* field) except -1

cdef extern from "Python.h":
    ctypedef struct PyGetSetDef:
        const char* name
        void* get
        void* set
        const char* doc
        void* closure
    ctypedef struct PyMethodDef:
        const char* ml_name
    ctypedef struct PyType_Slot:
        int slot
        void* pfunc
    ctypedef struct PyType_Spec:
        const char* name
        int basicsize
        int itemsize
        unsigned int flags
        PyType_Slot* slots
    object PyType_FromSpecWithBases(PyType_Spec* spec, object bases)
    unsigned int Py_TPFLAGS_DEFAULT
    int Py_tp_dealloc, Py_tp_new, Py_tp_doc, Py_tp_getset, Py_tp_setattro, Py_tp_init, Py_tp_methods
    int PyObject_GenericSetAttr(object o, object name, PyObject* value) except -1

MutableSequence.register(RepeatedScalar)
MutableSequence.register(RepeatedSpan)


@cython.final
cdef class ClassTable(TableRef):
    """The table of a class, and the memory of its attributes."""
    cdef PyGetSetDef* attributes
    cdef list texts               # the bytes objects made by `store_text`; `attributes` points into them

    cdef const char* store_text(self, str text):
        """Return a text in UTF-8, in memory that the table owns."""
        cdef bytes data = text.encode()
        self.texts.append(data)
        return data

    def __dealloc__(self):
        PyMem_Free(self.attributes)


cdef PyMethodDef* copy_methods() except NULL:
    """Copy the instance methods of Message, to be listed in each message class as its own.

    CPython specializes only calls of methods that the class itself lists.
    """
    cdef PyMethodDef* methods = (<PyTypeObject*>Message).tp_methods
    cdef PyMethodDef* copies
    cdef Py_ssize_t n_methods = 0
    cdef Py_ssize_t n_copied = 0
    cdef Py_ssize_t i
    while methods[n_methods].ml_name != NULL:
        n_methods += 1
    copies = <PyMethodDef*>PyMem_Calloc(n_methods + 1, sizeof(PyMethodDef))
    if copies == NULL:
        raise MemoryError
    for i in range(n_methods):
        # `tp_methods` also lists the class methods, as instance methods; only `__dict__` has them as class methods.
        if type(Message.__dict__[methods[i].ml_name.decode()]) is MethodDescriptorType:
            copies[n_copied] = methods[i]
            n_copied += 1
    return copies


cdef PyMethodDef* MESSAGE_METHODS = copy_methods()


cdef object make_message(PyTypeObject* cls, PyObject* args, PyObject* keywords):
    """tp_new: create an empty message."""
    with critical_section(<object>cls):
        return new_message(table_of(<object>cls))


@critical_section
cdef int set_keyword_fields(View self, PyObject* args, PyObject* keywords) except -1:
    """tp_init: set the fields named by the keywords."""
    if args != NULL and len(<tuple>args):
        raise FieldTypeError(f"{type(self).__name__}() takes no positional arguments; name the fields")
    if keywords != NULL:
        set_fields(self, <dict>keywords)
    return 0


@critical_section
cdef int set_attribute(View self, object name, PyObject* value) except -1:
    """tp_setattro: set or delete an attribute; raise FieldAttributeError in place of AttributeError."""
    try:
        PyObject_GenericSetAttr(self, name, value)
    except FieldAttributeError:
        raise
    except AttributeError:
        raise FieldAttributeError(f'Protocol message {type(self).__name__} has no "{name}" field.') from None
    return 0


@critical_section
cdef object get_in_section(View self, void* closure):
    """Call a field's getter in the section, for Python without the GIL; `closure` is the Field."""
    return (<Getter>(<Field*>closure).get)(self, closure)


@critical_section
cdef int set_in_section(View self, PyObject* value, void* closure) except -1:
    """Call a field's setter in the section, for Python without the GIL; `closure` is the Field."""
    return (<Setter>(<Field*>closure).set)(self, value, closure)


cdef object make_class(TableOwner owner, Table* table, str module, tuple bases):
    """Create the class of a table, with the name, docstring and attributes of the table's descriptor."""
    cdef ClassTable class_table = ClassTable.__new__(ClassTable)
    cdef PyType_Slot type_slots[8]
    cdef PyType_Spec spec
    cdef Field* field
    cdef uint32_t i
    descriptor = <object>table.descriptor
    class_table.owner = owner
    class_table.table = table
    class_table.texts = []
    class_table.attributes = <PyGetSetDef*>PyMem_Calloc(table.n_fields + 1, sizeof(PyGetSetDef))
    if class_table.attributes == NULL:
        raise MemoryError
    for i in range(table.n_fields):
        field = &table.fields[i]
        if not field.repeated:
            field.get = singular_getter(field.type)
            field.set = singular_setter(field.type)
        else:
            field.get = <void*>get_numbers if field.size else span_getter()
            field.set = singular_setter(MESSAGE)  # rejects assignment, as for messages
        class_table.attributes[i].name = class_table.store_text((<object>field.descriptor).name)
        class_table.attributes[i].doc = class_table.store_text((<object>field.descriptor).doc)
        class_table.attributes[i].get = <void*>get_in_section if FREE_THREADED else field.get
        class_table.attributes[i].set = <void*>set_in_section if FREE_THREADED else field.set
        class_table.attributes[i].closure = field
    type_slots[0] = PyType_Slot(Py_tp_dealloc, <void*>dealloc_view)
    type_slots[1] = PyType_Slot(Py_tp_new, <void*>make_message)
    type_slots[2] = PyType_Slot(Py_tp_doc, <void*>class_table.store_text(descriptor.doc))
    type_slots[3] = PyType_Slot(Py_tp_getset, <void*>class_table.attributes)
    type_slots[4] = PyType_Slot(Py_tp_setattro, <void*>set_attribute)
    type_slots[5] = PyType_Slot(Py_tp_init, <void*>set_keyword_fields)
    type_slots[6] = PyType_Slot(Py_tp_methods, MESSAGE_METHODS)
    type_slots[7] = PyType_Slot(0, NULL)
    spec.name = class_table.store_text(f"{module}.{descriptor.name}")
    # Instances of Message have memory for one slot. Instances of each class have memory for at least two slots:
    # otherwise CPython would allow assignment of `__class__` between classes whose instances are as large as those of
    # Message.
    spec.basicsize = <int>((<PyTypeObject*>Message).tp_basicsize + (max(table.n_fields, 2) - 1) * sizeof(Slot))
    spec.itemsize = 0
    spec.flags = Py_TPFLAGS_DEFAULT
    spec.slots = type_slots
    cls = PyType_FromSpecWithBases(&spec, (Message, *bases))
    cls._table = class_table
    cls.DESCRIPTOR = descriptor
    table.cls = <PyTypeObject*>cls
    owner.borrowed_objects.append(cls)
    return cls


@critical_section
def make_classes(list descriptors, str module, dict bases):
    """Create one class per descriptor.

    descriptors: those of a schema's messages, with `name`, `full_name`, `doc` and `fields` sorted by number; module:
    `__module__` of the classes; bases: further base classes by full name, each with `__slots__ = ()`.
    Returns the classes by full name.
    """
    cdef TableOwner owner = TableOwner(descriptors)
    return {
        descriptor.full_name: make_class(owner, &owner.tables[i], module, bases.get(descriptor.full_name, ()))
        for i, descriptor in enumerate(descriptors)
    }


forbid_instantiation(ClassTable, b"load_schema()")
