"""Benchmarks that compare onnxwire with the official runtime in the same run: `python -m benchmarks`."""
