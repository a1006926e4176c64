"""Benchmarks that compare onnxwire with the official `onnx` package or other programs: `python -m benchmarks`."""
