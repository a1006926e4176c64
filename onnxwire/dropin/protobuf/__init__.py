"""Stands in for `google.protobuf` where that is not installed: what the `onnx` package imports of it."""

IS_STAND_IN = True
