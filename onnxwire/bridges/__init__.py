"""Conversions to and from other packages and formats, and calls of other packages.

All of these packages except numpy are optional.
"""
