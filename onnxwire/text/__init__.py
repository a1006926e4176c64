"""Readers and writers of the text format and of JSON."""
