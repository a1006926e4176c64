"""The nesting limits of messages and groups; `engine/nesting_limit.py` exports MAX_DEPTH to Python."""

cdef enum:
    # Levels of messages and groups below the root that readers follow: protobuf's default. Deeper ones are an
    # error. Readers of JSON allow one level less, like protobuf's JSON reader.
    MAX_DEPTH = 100
    # Maximum nesting of edited messages, and of messages that `str` formats; deeper ones are an error. Recursion over
    # overlays must fit the C stack.
    MAX_OVERLAY_DEPTH = 500
