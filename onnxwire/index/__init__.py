"""Indexes of a model that several packages read: strings, and the definition of each name."""
