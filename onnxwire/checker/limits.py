"""Limits on the work of `check` and `find_fixes`, whatever a document contains."""

# Default of `--limit`, and the limit for catalogs: the number of problems of one rule that are stored; further ones are
# counted.
MAX_PROBLEMS_PER_RULE = 10_000

# The maximum number of messages that the repairs of one `find_fixes` call edit; the number of removed entries is not
# limited. An edit takes about 200 bytes of memory.
MAX_CHANGES = 50_000

# The maximum number of unknown operator names for which similar names are searched; each search takes a millisecond.
MAX_HINTS = 1_000

# Limits for rules that need the first values, the count or the maximum of a payload.
MAX_SCANNED_BYTES = 1 << 16  # number of first bytes of a payload whose values are scanned
# The maximum size of a packed list whose values are counted, and the number of first bytes of a repeated field of
# strings that are scanned.
MAX_COUNTED_BYTES = 1 << 20
MAX_TOTAL_SCANNED_BYTES = 1 << 24  # number of bytes of all messages that one pass scans or counts

# Limits for payloads whose values are read, such as indices.
MAX_READ_BYTES = 1 << 18  # maximum size of a tensor that is read; a larger one counts as a weight
MAX_TOTAL_READ_BYTES = 1 << 23  # number of bytes of a document that one pass reads
MAX_READ_RECORDS = 1 << 16  # total number of records of payloads that are not one packed record, such as strings

# Default of `--max-elements`: the maximum number of elements of a value in an untrusted model, 512 MiB as floats.
MAX_ELEMENTS = 1 << 27

# The number of scanned bytes of all values of AttributeProto.s that are not ASCII; at most MAX_SCANNED_BYTES of each.
MAX_TOTAL_TEXT_BYTES = 1 << 22
