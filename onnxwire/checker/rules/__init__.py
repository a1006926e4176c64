"""Implements the rules of `rules.tsv` and `security.tsv`, in modules by subject."""
