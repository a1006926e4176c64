"""Limits on the work of `check`, whatever a document contains."""

# Problems of one rule that the command keeps unless `--limit` says otherwise; further ones are counted.
MAX_PROBLEMS_PER_RULE = 10_000

# Messages that `find_fixes` changes at once: each change of a few bytes takes about two hundred bytes of memory.
MAX_CHANGES = 50_000

# Unknown names of operators for which similar ones are looked up; each takes a millisecond.
MAX_HINTS = 1_000

# Payloads of which the first values, a count or the greatest value are enough: bytes of a message whose values are
# scanned, bytes of a message that are counted or scanned as strings, and bytes of all messages in one pass.
MAX_SCANNED_BYTES = 1 << 16
MAX_COUNTED_BYTES = 1 << 20
MAX_TOTAL_SCANNED_BYTES = 1 << 24

# Payloads whose values are read, such as indices: bytes of a tensor, bytes of a document in one pass, and records of
# fields that are not one packed record, in all. A larger tensor is a weight.
MAX_READ_BYTES = 1 << 18
MAX_TOTAL_READ_BYTES = 1 << 23
MAX_READ_RECORDS = 1 << 16

# Bytes of all attribute strings together that are not plain ASCII; of each, MAX_SCANNED_BYTES are scanned.
MAX_TOTAL_TEXT_BYTES = 1 << 22
