"""Conversions to and from other packages and formats, and calls of other packages, which are all optional."""
