# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Read the layout of a TensorProto's payload, and add its storage, location, offset and length to columns."""
from onnxwire.arrow._columns cimport Column
from onnxwire.arrow._walk cimport Message, Walk
from onnxwire.tensor.payload_layout cimport Layout

# omitted_size: the size in bytes of raw_data if `to_arrow` omitted it when it encoded the message, else None.
cdef int read_layout(Walk walk, const Message* message, omitted_size, Layout* layout) except -1
cdef int add_location(Walk walk, Column* column, const Message* message, Layout* layout) except -1
