"""Parse addresses of files on servers, and remove credentials from them for errors and reports."""

from __future__ import annotations

import errno
import re
from collections import namedtuple

from onnxwire.errors import SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKET_HOSTS = (
    ".amazonaws.com", ".r2.cloudflarestorage.com", ".core.windows.net", ".fabric.microsoft.com",
)  # fmt: skip
"""Suffixes of hosts whose addresses without a query are read by obstore, with the credentials for their stores."""

WEB_SCHEMES = ("http", "https")
HUB_SCHEME = "hf"
DEFAULT_PORTS = {"http": 80, "https": 443}
# Patterns that `re` compiles at their first use, because every command imports this module.
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*)://"
# A scheme of one letter is a Windows drive.
_ADDRESS_IN_LINE = r"(?<![A-Za-z0-9+.-])([A-Za-z0-9+.-]{2,}):(/+)(\S+)"
_MAX_CHARS_IN_LINE = 8192  # of a longer address in a line, only the scheme is shown
_HOST_NAME = r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?"
_PATH_SAFE = "/%:@!$&'()*+,;=~"  # signs that are not escaped in a path; % begins an existing escape
_NO_FILE_NAME_REASON = "the address names no file; it must end with the name of the .onnx file"
_AMBIGUOUS_REASON = (
    "the address is ambiguous, because it contains an @ after its host; in a password write / as %2F, ? as %3F, # as "
    "%23 and @ as %40, elsewhere write @ as %40"
)


def is_address(source: object) -> bool:
    """Return whether a source is an address such as https://host/model.onnx or s3://bucket/model."""
    return isinstance(source, str) and "://" in source and re.match(_SCHEME, source) is not None


class Site(namedtuple("Site", ("scheme", "host", "port"))):
    """A server: scheme, host in lower case without a trailing dot (IPv6 without brackets), and port."""

    __slots__ = ()
    scheme: str
    host: str
    port: int

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The host and port for comparisons; 0 denotes the default ports of http and https."""
        return self.host, 0 if self.port == DEFAULT_PORTS[self.scheme] else self.port

    @property
    def netloc(self) -> str:
        """The host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class Address(namedtuple("Address", ("scheme", "root", "key", "shown", "site", "query", "user"))):
    """The address of a file.

    root: the URL of the server or bucket, with the folders that are not in the key, without user and query; key: the
    file's path from the root. site, query, user: for a file that is read by HTTP, its server, the query (with ?, or
    ""), and the decoded user:password, or ""; its key begins with / and is percent-encoded. site is None for files that
    a library reads.
    shown: the address for errors and reports, without user, password and query, which may be credentials; the repr
    contains only `shown`.
    """

    __slots__ = ()
    scheme: str
    root: str
    key: str
    shown: str
    site: Site | None
    query: str
    user: str

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def beside(self, location: str) -> Address:
        """Return the address of a location relative to the folder of this address, with the same user and query."""
        from urllib.parse import quote

        name = "/".join(name for name in location.split("/") if name not in ("", "."))
        folder, slash, _ = self.key.rpartition("/")
        key = f"{folder}{slash}{name if self.site is None else quote(name)}"
        return self._replace(key=key, shown=f"{self.shown_folder}/{name}" if self.shown_folder else name)

    @property
    def target(self) -> str:
        """The path and query of an HTTP request."""
        return self.key + self.query

    @property
    def shown_folder(self) -> str:
        """The folder for errors and reports."""
        return self.shown.rpartition("/")[0]


def address_in_store(name: str) -> Address:
    """Return the address of a file, by its name in the store object that the caller passed as `store=`."""
    return Address("", "", name, name, None, "", "")


def parse_address(text: str) -> Address:
    """Parse an address.

    Raises SourceError, which never contains a password or query, for an address that is invalid or ambiguous, or names
    no file.
    """
    try:
        scheme, user, host, path, query = _split(text)
        shown = f"{scheme}://{host}{path}"
        if scheme == HUB_SCHEME:
            return _parse_hub_address(shown)
        if not host or not path.rpartition("/")[2]:
            raise SourceError(errno.EINVAL, _NO_FILE_NAME_REASON, shown)
        if scheme in WEB_SCHEMES and (query or not host.partition(":")[0].lower().endswith(BUCKET_HOSTS)):
            site = site_of(scheme, host)
            root = f"{scheme}://{site.netloc}"
            return Address(scheme, root, quote_path(path), shown, site, quote_query(query), user)
    except ValueError as error:
        raise SourceError(errno.EINVAL, str(error), shown_address(text)) from None
    return Address(scheme, *_split_key(scheme, host, path), shown, None, "", "")


def _parse_hub_address(text: str) -> Address:
    """Parse an address of the Hugging Face Hub. Raises ValueError; SourceError if the address names no file."""
    from urllib.parse import urlsplit

    from onnxwire.io.remote.hub_address import hub_endpoint, parse_hub_file

    file = parse_hub_file(text)
    if not file.path.rpartition("/")[2]:
        raise SourceError(errno.EINVAL, _NO_FILE_NAME_REASON, text)
    parts = urlsplit(hub_endpoint())
    if parts.scheme not in WEB_SCHEMES:
        raise ValueError("HF_ENDPOINT must begin with https:// or http://")
    site = site_of(parts.scheme, parts.netloc)
    return Address(HUB_SCHEME, f"{site.scheme}://{site.netloc}", file.key, file.shown, site, "", "")


def _split_key(scheme: str, host: str, path: str) -> tuple[str, str]:
    """Return the root and key of a file that a library reads."""
    from urllib.parse import quote, unquote

    is_web = scheme in WEB_SCHEMES
    names = path.split("/")
    # In an http address the first folder may be a bucket, which only the library knows; so it is always in the root.
    # Names that a key can't contain, such as an empty name, are in the root, too.
    minimum = 2 if is_web else 1
    n_root_names = len(names) - 1
    while n_root_names > minimum and names[n_root_names - 1] not in ("", ".", ".."):
        n_root_names -= 1
    folder, key = "/".join(names[:n_root_names]), "/".join(names[n_root_names:])
    if not is_web:
        return f"{scheme}://{host}{folder}".rstrip("/"), key
    return f"{scheme}://{host}{quote(unquote(folder), safe=_PATH_SAFE.replace('%', ''))}", unquote(key)


def shown_address(text: str) -> str:
    """Return an address without user, password and query; only the scheme if it can't be parsed."""
    try:
        scheme, _, host, path, _ = _split(text)
    except ValueError:
        return f"{text.partition('://')[0]}://..."
    return f"{scheme}://{host}{path}"


def shown_source(source: str) -> str:
    """Return a path or address as shown in errors and reports."""
    return shown_address(source) if is_address(source) else source


def without_credentials(line: str) -> str:
    """Return a line of text with users, passwords and queries removed from its addresses.

    An address ends at a space. An address that was converted to a path and back may lack one of its slashes; it is
    changed only if it contains an @.
    """
    return re.sub(_ADDRESS_IN_LINE, _shown_match, line) if ":/" in line else line


def _shown_match(match: re.Match[str]) -> str:
    """Return the replacement for a match of _ADDRESS_IN_LINE."""
    scheme, slashes, word = match.groups()
    # Trailing quotes and punctuation belong to the line.
    address = word.rstrip("'\"`:;,.)}>")
    if not address or (slashes == "/" and "@" not in address):
        return match[0]
    if len(address) > _MAX_CHARS_IN_LINE or (":/" in address and "@" in address):
        return f"{scheme}://..."
    return shown_address(f"{scheme}://{address}") + word[len(address) :]


def _split(text: str) -> tuple[str, str, str, str, str]:
    """Return the scheme, decoded user, host with port, path, and query with its ? of an address.

    Raises ValueError, whose message contains no part of the address, for an ambiguous or invalid address.
    """
    from urllib.parse import unquote

    if any(letter < " " or "\x7f" <= letter <= "\x9f" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the address contains a control character or a lone surrogate")
    scheme, _, remainder = text.partition("://")
    scheme = scheme.lower()
    is_web = scheme in WEB_SCHEMES
    authority = re.split(r"[/?#\\]" if is_web else "/", remainder, maxsplit=1)[0]
    suffix = remainder[len(authority) :]
    user, at, host = authority.rpartition("@")
    if "@" in suffix and (at or ":" in re.sub(r"\[.*\]", "", authority)):
        raise ValueError(_AMBIGUOUS_REASON)
    if scheme in ("abfs", "abfss", "azure", "adl", "az") and ":" not in user:
        user, host = "", authority  # container@account
    if scheme == HUB_SCHEME and at:
        raise ValueError("an address of the Hub must not contain a user; set HF_TOKEN")
    if " " in authority or suffix[:1] == "\\":
        raise ValueError(
            "the user, password or host of the address contains a space, or the address contains a backslash after its "
            "host; write a space as %20"
        )
    if not is_web:
        return scheme, "", host, suffix, ""
    path, question_mark, query = suffix.partition("#")[0].partition("?")
    return scheme, unquote(user), host, path, question_mark + query


def site_of(scheme: str, host: str) -> Site:
    """Return the Site of a host with an optional port. Raises ValueError for an invalid host or port."""
    from ipaddress import IPv6Address

    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", host, re.S)
    port = int(match[2] or DEFAULT_PORTS[scheme]) if match else 0
    if match is None or not 0 < port < 1 << 16:
        raise ValueError("the host or port of the address is invalid; in a password write / as %2F and @ as %40")
    name = match[1]
    try:
        if name.startswith("[") and "%" not in name:
            return Site(scheme, str(IPv6Address(name[1:-1])), port)
        name = (name if name.isascii() else name.encode("idna").decode()).lower().removesuffix(".")
    except ValueError:
        name = ""
    if not re.fullmatch(_HOST_NAME, name):
        raise ValueError("the host of the address is neither a name nor an IP address")
    return Site(scheme, name, port)


def quote_path(path: str) -> str:
    """Percent-encode a path for a request. Existing escapes stay unchanged."""
    from urllib.parse import quote

    return quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path), safe=_PATH_SAFE) or "/"


def quote_query(query: str) -> str:
    """Percent-encode a query for a request. Existing escapes stay unchanged."""
    from urllib.parse import quote

    return quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", query), safe=_PATH_SAFE + "?")


def address_below(folder: str, names: Sequence[str]) -> str:
    """Return the address of a file by the address of a folder and the names on the path from the folder."""
    from urllib.parse import quote

    if folder.partition("://")[0].lower() not in WEB_SCHEMES:
        return f"{folder.rstrip('/')}/{'/'.join(names)}"
    base, question_mark, query = folder.partition("#")[0].partition("?")
    return f"{base.rstrip('/')}/{'/'.join(quote(name, safe='') for name in names)}{question_mark}{query}"
