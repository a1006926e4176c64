"""Errors of requests, which readers raise in addition to the errors of their libraries."""

from __future__ import annotations


class RangeError(Exception):
    """A response to a range request contains no range, or does not state the size of the file."""


class RequestError(Exception):
    """An HTTP request failed. The text contains no password, header or query.

    kind: "missing", "forbidden", "changed", "refused" (by this client), "unlisted" (the server does not list folders),
    or "" for any other reason. is_transient: whether a retry may succeed. wait: the seconds to wait before the retry,
    as the server requires (Retry-After).
    """

    def __init__(self, reason: str, kind: str = "", *, is_transient: bool = False, wait: float = 0) -> None:
        super().__init__(reason)
        self.kind = kind
        self.is_transient = is_transient
        self.wait = wait


class RefusedError(RequestError):
    """This client refused to send a request, such as one after a redirect to a server that is not allowed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "refused")


class UnknownHostError(RefusedError):
    """A redirect leads to an unknown server: not the model's, not a target of its redirects, and not allowed."""
