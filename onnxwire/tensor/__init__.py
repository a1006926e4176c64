"""Tensors: data types, numpy arrays, DLPack, and the bytes that lie outside the model."""
