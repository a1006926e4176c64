"""The message classes and enums of ONNX, created from the tables in `schema/`."""

from onnxwire.engine.schema import Schema
from onnxwire.messages._tables import BASES, TABLES

SCHEMA = Schema(TABLES, "onnxwire", BASES)
"""The schema of ONNX: message classes, enums, and descriptors of the messages that the current version lacks."""

_public = {name: value for name, value in vars(SCHEMA).items() if name not in ("messages", "enums", "retired")}
globals().update(_public)
__all__ = list(_public)


def _repr_html_(self):  # type: ignore[no-untyped-def]
    """Return the message as HTML, for notebooks.

    Notebooks look for this method on the class; the viewer, a package of a higher layer, makes the HTML.
    """
    from importlib import import_module

    return import_module("onnxwire.viewer.notebook").message_html(self)


for _cls in SCHEMA.messages.values():
    _cls._repr_html_ = _repr_html_
