"""Edits of models: assign, rename, remove, bypass, extract, merge."""
