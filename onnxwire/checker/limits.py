"""How much `check` does at most, whatever a document asks for."""

# Breaches of one rule that the command keeps unless `--limit` says otherwise; further ones are counted.
KEPT_OF_A_RULE = 10_000

# Names of operators that are not there for which similar ones are looked for; that takes a millisecond each.
HINTS = 1_000
