"""Protobuf at run time: tables, documents, views, edits, the encoder. Knows nothing of ONNX."""
