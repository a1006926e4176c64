"""Checks documents against the rules of the ONNX IR. Each module of `rules/` registers the rules of one scope by id."""

from onnxwire.checker._problem import Problem
from onnxwire.checker.problems import Problems
from onnxwire.checker.run import check

__all__ = ["Problem", "Problems", "check"]
