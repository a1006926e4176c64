"""Stands in for `google.protobuf.message`: the base of messages, and the errors."""

IS_STAND_IN = True


class Error(Exception):
    """The base of errors about messages."""


class DecodeError(Error):
    """Bytes that are not a message."""


class EncodeError(Error):
    """A message that can't be written."""


class Message:
    """The base of all messages."""

    __slots__ = ()
