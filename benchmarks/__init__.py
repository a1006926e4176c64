"""Compares onnxwire with the official runtime, side by side in one run: `python -m benchmarks`."""
