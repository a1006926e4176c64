"""Onnxwire against the official runtime, side by side in one run: `python -m benchmarks`."""
