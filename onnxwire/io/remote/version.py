"""The version of a file on a server, as the server reports it."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any


class Version(namedtuple("Version", ("size", "etag", "modified", "version"))):
    """The version of a file, as a server reports it: size, ETag, modification time, version ID."""

    __slots__ = ()
    size: int
    etag: str | None
    modified: Any  # the text of Last-Modified, or the time in a store's description
    version: str | None

    @property
    def is_strong(self) -> bool:
        """Whether there is an ETag that identifies the bytes: a strong validator (RFC 9110, section 8.8.1)."""
        return self.etag is not None and not self.etag.startswith(("W/", "w/"))

    @property
    def is_known(self) -> bool:
        """Whether the server reports a validator that reveals a change to content of the same size."""
        return self.etag is not None or self.modified is not None or self.version is not None

    def is_same(self, other: Version) -> bool:
        """Return whether both denote the same bytes: by strong ETags, else by all validators."""
        if self.size != other.size:
            return False
        if self.is_strong and other.is_strong:
            return self.etag == other.etag
        return self == other


def time_of(text: str | None) -> datetime | None:
    """Return the time of a date in a header; None if the text is not a date."""
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        time = parsedate_to_datetime(text or "")
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def version_of(description: Mapping[str, Any]) -> Version:
    """Return the version in a store's description of a file."""
    return Version(
        description["size"], description.get("e_tag"), description.get("last_modified"), description.get("version")
    )
