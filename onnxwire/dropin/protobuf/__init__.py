"""A substitute for `google.protobuf`, used if protobuf is not installed. It has the parts that `onnx` imports."""

IS_SUBSTITUTE = True  # distinguishes this module from protobuf's
