"""A substitute for `google.protobuf`, with the parts that the `onnx` package imports, if protobuf is not installed."""

IS_SUBSTITUTE = True
