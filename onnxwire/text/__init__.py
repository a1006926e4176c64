"""The text format and JSON, read and written."""
