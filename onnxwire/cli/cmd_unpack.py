"""`onnxwire unpack`; see cmd_pack."""

from onnxwire.cli.cmd_pack import add_unpack_parser as add_parser

__all__ = ["add_parser"]
