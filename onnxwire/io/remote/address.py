"""Addresses of files on servers: their parts, and what errors and reports show of them."""

from __future__ import annotations

import errno
import re
from collections import namedtuple

from onnxwire.errors import SourceError

BUCKET_HOSTS = (
    ".amazonaws.com", ".r2.cloudflarestorage.com", ".core.windows.net", ".fabric.microsoft.com",
)  # fmt: skip
"""Hosts whose https:// addresses obstore reads with the credentials of their stores."""

WEB_SCHEMES = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# A scheme of one letter is a drive of Windows.
_IN_LINE = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z0-9+.-]{2,}):(/+)(\S+)")
_LONGEST_IN_LINE = 8192
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?")
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_ENDS_WITH_FILE = "the address names no file; it is to end with the name of the .onnx file"
_AMBIGUOUS = (
    "the address has an @ behind its host; in a password write / as %2F, ? as %3F, # as %23 and @ as %40, elsewhere "
    "write @ as %40"
)


def is_address(source: object) -> bool:
    """Whether a source is the address of a file on a server, such as https://host/model.onnx or s3://bucket/model."""
    return isinstance(source, str) and "://" in source and _SCHEME.match(source) is not None


class Site(namedtuple("Site", ("scheme", "host", "port"))):
    """A server: scheme, host in lower case without a final dot (IPv6 without brackets), and port."""

    __slots__ = ()
    scheme: str
    host: str
    port: int

    @property
    def host_and_port(self) -> tuple[str, int]:
        """What hosts are compared by: the default ports of http and https, shown as 0, are one."""
        return self.host, 0 if self.port == DEFAULT_PORTS[self.scheme] else self.port

    @property
    def netloc(self) -> str:
        """The host and port as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class Address(namedtuple("Address", ("scheme", "root", "key", "shown", "site", "query", "user"))):
    """Where a file is.

    root: of its server or bucket, without user and query; key: the file's path from there. site, query, user: of a file
    that is read by HTTP: its server, the query (with its ?, or ""), and user:password decoded, or "". The key of such a
    file begins with / and is percent-encoded. site is None for other files, which a library reads.
    shown: the address as errors and reports show it, without the user, the password and the query, any of which may be
    somebody's credentials. So is the repr.
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
        """The address of a file that a location leads to, from the folder of this one."""
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
        """The folder as errors and reports show it."""
        return self.shown.rpartition("/")[0]


def address_in_store(name: str) -> Address:
    """The address of a file by its name in a ready store."""
    return Address("", "", name, name, None, "", "")


def parse_address(text: str) -> Address:
    """Split an address into its parts.

    Raises SourceError, which never contains a password or query, for one that is ambiguous or names no file.
    """
    try:
        scheme, user, host, path, query = _split(text)
        shown = f"{scheme}://{host}{path}"
        if not host or not path.rpartition("/")[2]:
            raise SourceError(errno.EINVAL, _ENDS_WITH_FILE, shown)
        if scheme in WEB_SCHEMES and (query or not host.partition(":")[0].lower().endswith(BUCKET_HOSTS)):
            site = site_of(scheme, host)
            root = f"{scheme}://{site.netloc}"
            return Address(scheme, root, quote_path(path), shown, site, quote_query(query), user)
    except ValueError as error:
        raise SourceError(errno.EINVAL, str(error), shown_address(text)) from None
    return Address(scheme, *_split_key(scheme, host, path), shown, None, "", "")


def _split_key(scheme: str, host: str, path: str) -> tuple[str, str]:
    """The root and key of a file that a library reads."""
    from urllib.parse import quote, unquote

    is_web = scheme in WEB_SCHEMES
    names = path.split("/")
    # The first folder may be a bucket, which is the library's to find out. What a key can't have, such as an empty
    # name, stays in the root.
    least = 2 if is_web else 1
    first = len(names) - 1
    while first > least and names[first - 1] not in ("", ".", ".."):
        first -= 1
    folder, key = "/".join(names[:first]), "/".join(names[first:])
    if not is_web:
        return f"{scheme}://{host}{folder}".rstrip("/"), key
    return f"{scheme}://{host}{quote(unquote(folder), safe=_PATH_SAFE.replace('%', ''))}", unquote(key)


def shown_address(text: str) -> str:
    """An address without its user, password and query; of one that can't be split, the scheme alone."""
    try:
        scheme, _, host, path, _ = _split(text)
    except ValueError:
        return f"{text.partition('://')[0]}://..."
    return f"{scheme}://{host}{path}"


def shown_source(source: str) -> str:
    """What errors and reports show of a path or address."""
    return shown_address(source) if is_address(source) else source


def without_credentials(line: str) -> str:
    """A line of text whose addresses are without their users, passwords and queries.

    An address ends at a space. As what a path was made of, it may have lost one of its slashes.
    """
    return _IN_LINE.sub(_shown_match, line) if ":/" in line else line


def _shown_match(found: re.Match[str]) -> str:
    scheme, slashes, word = found.groups()
    # The quotes and punctuation at the end are those of the line.
    rest = word.rstrip("'\"`:;,.)}>")
    if not rest or (slashes == "/" and "@" not in rest):
        return found[0]
    if len(rest) > _LONGEST_IN_LINE or (":/" in rest and "@" in rest):
        return f"{scheme}://..."
    return shown_address(f"{scheme}://{rest}") + word[len(rest) :]


def _split(text: str) -> tuple[str, str, str, str, str]:
    """The scheme, user (decoded), host with port, path and query (with its ?) of an address.

    Raises ValueError, with a text that contains no part of the address, for one that is ambiguous.
    """
    from urllib.parse import unquote

    if any(letter < " " or "\x7f" <= letter <= "\x9f" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the address holds a control character or what is not text")
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    is_web = scheme in WEB_SCHEMES
    authority = re.split(r"[/?#\\]" if is_web else "/", rest, maxsplit=1)[0]
    after = rest[len(authority) :]
    user, at, host = authority.rpartition("@")
    if "@" in after and (at or ":" in re.sub(r"\[.*\]", "", authority)):
        raise ValueError(_AMBIGUOUS)
    if scheme in ("abfs", "abfss", "azure", "adl", "az") and ":" not in user:
        user, host = "", authority  # container@account
    if " " in authority or after[:1] == "\\":
        raise ValueError("the host of the address holds a space or a backslash")
    if not is_web:
        return scheme, "", host, after, ""
    path, mark, query = after.partition("#")[0].partition("?")
    return scheme, unquote(user), host, path, mark + query


def site_of(scheme: str, host: str) -> Site:
    """The server of a host with an optional port. Raises ValueError for what is neither a host's name nor an IP."""
    from ipaddress import IPv6Address

    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", host, re.S)
    port = int(found[2] or DEFAULT_PORTS[scheme]) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise ValueError("the host or port of the address can't be; a password in it needs / as %2F and @ as %40")
    name = found[1]
    try:
        if name.startswith("[") and "%" not in name:
            return Site(scheme, str(IPv6Address(name[1:-1])), port)
        name = (name if name.isascii() else name.encode("idna").decode()).lower().removesuffix(".")
    except ValueError:
        name = ""
    if not _HOST_NAME.fullmatch(name):
        raise ValueError("the host of the address is neither a name nor an IP address")
    return Site(scheme, name, port)


def quote_path(path: str) -> str:
    """A path as a request has it: what is percent-encoded stays as it is."""
    from urllib.parse import quote

    return quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path), safe=_PATH_SAFE) or "/"


def quote_query(query: str) -> str:
    """A query as a request has it: what is percent-encoded stays as it is."""
    from urllib.parse import quote

    return quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", query), safe=_PATH_SAFE + "?")


def address_below(folder: str, path: str) -> str:
    """The address of a file by the address of a folder, and the file's path from there."""
    from urllib.parse import quote

    if folder.partition("://")[0].lower() not in WEB_SCHEMES:
        return f"{folder.rstrip('/')}/{path}"
    start, mark, query = folder.partition("#")[0].partition("?")
    return f"{start.rstrip('/')}/{quote(path)}{mark}{query}"
