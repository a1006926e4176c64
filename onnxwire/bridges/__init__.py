"""Conversions to and from other packages, which are all optional: one module per package."""
