"""The message classes of ONNX, created from the tables in `schema/`."""

from onnxwire.engine.schema import Schema
from onnxwire.messages._tables import BASES, TABLES

SCHEMA = Schema(TABLES, "onnxwire", BASES)
"""All tables of ONNX: classes, enums, and the messages of past releases."""

_public = {name: value for name, value in vars(SCHEMA).items() if name not in ("messages", "enums", "retired")}
globals().update(_public)
__all__ = list(_public)
