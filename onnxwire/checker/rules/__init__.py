"""The rules, one module for each scope; `checker/rules.tsv` is their table."""
