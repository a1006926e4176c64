"""Tensors: data types, numpy arrays, DLPack, and external data."""
