"""Protobuf at run time: tables, documents, views, edits, the encoder. Independent of ONNX."""
