"""The rules, one module a scope; `checker/rules.tsv` is their table."""
