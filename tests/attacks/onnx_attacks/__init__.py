"""Attack files for readers and runtimes of ONNX models, and sound files that resemble them. Standard library only."""
