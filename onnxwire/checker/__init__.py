"""Checks a document against the rules of the ONNX IR: one module per scope, rules registered by id."""

from onnxwire.checker._problem import Problem
from onnxwire.checker.problems import Problems
from onnxwire.checker.run import check

__all__ = ["Problem", "Problems", "check"]
