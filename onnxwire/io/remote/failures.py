"""Why a request for a file failed: what all ways to read raise beside the errors of their libraries."""

from __future__ import annotations


class RangeError(Exception):
    """A server that does not answer a request for a range with one."""


class RequestError(Exception):
    """A request by HTTP that failed. The text contains no password, header or query.

    kind: "missing", "forbidden", "changed", "refused" (by us), or "" for another reason. is_passing: whether to try
    again.
    """

    def __init__(self, reason: str, kind: str = "", *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        self.is_passing = is_passing


class RefusedError(RequestError):
    """A server that a request may not go to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "refused")


class UnknownHostError(RefusedError):
    """A redirect to a server that is neither the model's, nor one that it redirects to, nor allowed by the caller."""
