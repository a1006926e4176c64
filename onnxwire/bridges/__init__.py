"""Conversions to and from other packages, all of them optional: one file per package."""
