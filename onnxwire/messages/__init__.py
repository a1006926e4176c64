"""The message classes of ONNX, created from the tables in `schema/`."""

from onnxwire.engine.schema import Schema
from onnxwire.messages._tables import BASES, TABLES

SCHEMA = Schema(TABLES, "onnxwire", BASES)
"""All tables of ONNX: classes, enums, and the messages of past releases."""

_public = {name: value for name, value in vars(SCHEMA).items() if name not in ("messages", "enums", "retired")}
globals().update(_public)
__all__ = list(_public)


def _repr_html_(self):  # type: ignore[no-untyped-def]
    """Return the message as HTML, for notebooks.

    Notebooks look for this method on the class; the viewer, which is a layer above, writes the HTML.
    """
    from importlib import import_module

    return import_module("onnxwire.viewer.notebook").message_html(self)


for _cls in SCHEMA.messages.values():
    _cls._repr_html_ = _repr_html_
