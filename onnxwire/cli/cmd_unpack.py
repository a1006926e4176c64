"""`onnxwire unpack`, which has most in common with `onnxwire pack`."""

from onnxwire.cli.cmd_pack import add_unpack_parser as add_parser

__all__ = ["add_parser"]
