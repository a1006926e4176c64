"""Implements the rules, with one module for each scope; `rules.tsv` and `security.tsv` list them."""
