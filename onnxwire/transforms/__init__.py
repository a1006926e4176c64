"""Edits of models: assign, remove, rename, bypass, extract, merge changes, set dimensions."""
