from typing_extensions import Buffer

NESTING_LIMIT: int

# Returns the instruction levels (`_packed.h`) that this processor supports, ascending.
def packed_levels() -> list[int]: ...

# Returns the bytes of an array of the numbers in a packed run of varints, up to the first damaged varint.
# kind: the type of the numbers, such as "int64". level: one of packed_levels(), -1 for the last.
def decode_packed(data: Buffer, kind: str, level: int = -1) -> bytes: ...
