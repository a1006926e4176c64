"""Checks documents against the rules of the ONNX IR. Each module of `rules/` implements rules about one subject."""

from onnxwire.checker._problem import Problem
from onnxwire.checker.problems import Problems
from onnxwire.checker.run import check

__all__ = ["Problem", "Problems", "check"]
