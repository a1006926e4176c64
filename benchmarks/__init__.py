"""Benchmarks that compare onnxwire with the official `onnx` package or other programs: `python -m benchmarks`.

The modules layouts and view_map are separate programs, such as `python -m benchmarks.layouts`.
"""
