"""Puts the classes of onnxwire in place of those that the `onnx` package makes with protobuf."""

from onnxwire.dropin.switch import UnknownOnnxWarning, install, is_installed, uninstall

__all__ = ["UnknownOnnxWarning", "install", "is_installed", "uninstall"]
