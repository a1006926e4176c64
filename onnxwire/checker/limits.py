"""How much `check` does at most, whatever a document asks for."""

# Breaches of one rule that the command keeps unless `--limit` says otherwise; further ones are counted.
KEPT_OF_A_RULE = 10_000

# Messages that `find_fixes` changes at once: an edit of four bytes takes two hundred.
CHANGES = 50_000

# Names of operators that are not there for which similar ones are looked for; that takes a millisecond each.
HINTS = 1_000

# Payloads of which the first values, a count or the greatest tell enough: bytes of a message that are looked at, bytes
# that are counted or looked at as strings, and bytes of all together that one pass looks at.
LOOK = 1 << 16
COUNT = 1 << 20
LOOK_IN_ALL = 1 << 24

# Payloads whose values are read, since they are indices and the like: bytes of a tensor, bytes of a document each time,
# and records of fields that are not in one packed record, in all. What is larger is a weight.
READ = 1 << 18
READ_IN_ALL = 1 << 23
READ_RECORDS = 1 << 16

# Bytes of all strings of attributes together that are not plain ASCII, of each of which LOOK bytes are looked at.
TEXT_IN_ALL = 1 << 22
