"""Settings in environment variables and in the .netrc file."""

from __future__ import annotations

import errno
import os
import re
from functools import lru_cache

from onnxwire.errors import SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from onnxwire.io.remote.address import Site

HEADERS_VARIABLE = "ONNXWIRE_HTTP_HEADERS"
UNTRUSTED_VARIABLE = "ONNXWIRE_UNTRUSTED"
_TIMEOUT_VARIABLE = "ONNXWIRE_RETRY_TIMEOUT"
# The limits of the retries of a request, unless the user sets a time.
_RETRY_SECONDS = 60.0
_MAX_RETRIES = 6
_MAX_RETRIES_WITH_TIMEOUT = 10_000  # so large that usually only the time limits the retries
# A name of RFC 9110's token characters, and a value without ASCII control characters except tabs. `re` compiles the
# pattern at its first use, because every command imports this module.
_HEADER = r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*"


def parse_header(line: str) -> tuple[str, str]:
    """Return the name and value of a header.

    Raises ValueError if the line is not `Name: value`; the message does not contain the line.
    """
    match = re.fullmatch(_HEADER, line)
    if match is None:
        raise ValueError("a header is written as `Name: value`")
    return match[1], match[2]


def headers_of_environment() -> dict[str, str]:
    """Return the headers in ONNXWIRE_HTTP_HEADERS, one in each line.

    Raises SourceError for a line that is not a header; the message does not contain the line.
    """
    headers = {}
    for number, line in enumerate(os.environ.get(HEADERS_VARIABLE, "").split("\n"), 1):
        if line.strip():
            try:
                name, value = parse_header(line.strip())
            except ValueError as error:
                raise SourceError(errno.EINVAL, f"line {number}: {error}", HEADERS_VARIABLE) from None
            headers[name] = value
    return headers


def is_untrusted() -> bool:
    """Return whether ONNXWIRE_UNTRUSTED is set and not 0: then all models are opened with untrusted=True."""
    return os.environ.get(UNTRUSTED_VARIABLE, "") not in ("", "0")


def retry_limits() -> tuple[int, float]:
    """Return the maximum number of retries of a request, and the seconds during which it is retried.

    ONNXWIRE_RETRY_TIMEOUT sets the seconds; the number of retries is then limited to _MAX_RETRIES_WITH_TIMEOUT.
    Raises SourceError for a text that is not a number.
    """
    text = os.environ.get(_TIMEOUT_VARIABLE)
    if not text:
        return _MAX_RETRIES, _RETRY_SECONDS
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) is None:
        raise SourceError(errno.EINVAL, "this must be a number of seconds, such as 600", _TIMEOUT_VARIABLE)
    return _MAX_RETRIES_WITH_TIMEOUT, float(text)


def user_of_netrc(site: Site) -> str:
    """Return `user:password` of the entry for a host in .netrc; "" if there is none.

    The file is the one that the environment variable NETRC names, or ~/.netrc. Its `default` entry is not used, because
    it would apply to every host. Warns if the file exists and can't be read; the warning contains none of its text.
    """
    try:
        status = os.stat(os.environ.get("NETRC") or os.path.expanduser("~/.netrc"))
    except (OSError, ValueError):
        return ""
    entry = _netrc_hosts(os.environ.get("NETRC"), (status.st_ino, status.st_size, status.st_mtime_ns)).get(site.host)
    return f"{entry[0]}:{entry[2]}" if entry is not None else ""


@lru_cache(8)
def _netrc_hosts(path: str | None, version: tuple[int, ...]) -> Mapping[str, tuple[Any, ...]]:
    """Return the entries of a .netrc file by host, without `default`. version: part of the cache key."""
    from netrc import NetrcParseError, netrc

    try:
        hosts = netrc(path or None).hosts
    except (OSError, ValueError, NetrcParseError) as error:
        import warnings

        line = f", at line {error.lineno}" if isinstance(error, NetrcParseError) and error.lineno else ""
        warnings.warn(f".netrc is not used: it can't be read{line} ({type(error).__name__})", stacklevel=2)
        return {}
    hosts.pop("default", None)  # netrc stores it as the host of this name
    return hosts
