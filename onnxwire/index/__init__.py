"""Indexes of a model that several packages read: which definition each name refers to."""
