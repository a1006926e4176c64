"""Implements the rules of `rules.tsv` (except those in `unchecked.tsv`) and `security.tsv`, in modules by subject."""
