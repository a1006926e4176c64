"""Attack files for readers and runtimes of ONNX models, and benign models that resemble them."""
