"""A substitute for `google.protobuf.message`: the base class of messages, and the errors."""

IS_SUBSTITUTE = True  # distinguishes this module from protobuf's


class Error(Exception):
    """The base of errors about messages."""


class DecodeError(Error):
    """The bytes are not a valid message."""


class EncodeError(Error):
    """The message can't be encoded."""


class Message:
    """The base of all messages."""

    __slots__ = ()
