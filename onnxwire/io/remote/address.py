"""Addresses of files on servers: what is shown of them, and what the libraries are given."""

from __future__ import annotations

import re
from collections import namedtuple

_BUCKET_HOSTS = (
    ".amazonaws.com", ".r2.cloudflarestorage.com", ".core.windows.net", ".fabric.microsoft.com",
)  # fmt: skip
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_address(source: object) -> bool:
    """Whether a source is the address of a file on a server, such as https://host/model.onnx or s3://bucket/model."""
    return isinstance(source, str) and "://" in source and _SCHEME.match(source) is not None


class Address(namedtuple("Address", ("scheme", "root", "key", "shown"))):
    """Where a file is: the root of its server or bucket as the library takes it, and the file's path from there.

    shown: the address as errors and reports show it, without the user, the password and the query, any of which may be
    somebody's credentials.
    """

    __slots__ = ()
    scheme: str
    root: str
    key: str
    shown: str

    def beside(self, location: str) -> Address:
        """The address of a file that a location leads to, from the folder of this one."""
        name = "/".join(name for name in location.split("/") if name not in ("", "."))
        folder = self.key.rpartition("/")[0]
        key = f"{folder}/{name}" if folder else name
        return Address(self.scheme, self.root, key, f"{self.shown_folder}/{name}" if self.shown_folder else name)

    @property
    def shown_folder(self) -> str:
        """The folder as errors and reports show it."""
        return self.shown.rpartition("/")[0]


def parse_address(text: str) -> Address:
    """Take an address apart. Raises ValueError for one that names no file."""
    from urllib.parse import quote, unquote, urlsplit, urlunsplit

    parts = urlsplit(text)
    is_web = parts.scheme in ("http", "https")
    path = parts.path if is_web else text.partition("://")[2].partition("/")[2]
    host = parts.netloc.rpartition("@")[2]
    if not host or not path.rpartition("/")[2]:
        raise ValueError("the address names no file")
    shown = f"{parts.scheme}://{host}/{path.lstrip('/')}"
    names = path.split("/")
    # At such hosts the first folder may be a bucket, which is the library's to find out. What a key can't have, such as
    # an empty name, stays in the root.
    least = 0 if not is_web else 2 if host.partition(":")[0].endswith(_BUCKET_HOSTS) else 1
    first = len(names) - 1
    while first > least and names[first - 1] not in ("", ".", ".."):
        first -= 1
    folder, key = "/".join(names[:first]), "/".join(names[first:])
    if not is_web:
        return Address(parts.scheme, f"{parts.scheme}://{parts.netloc}/{folder}".rstrip("/"), key, shown)
    folder = quote(unquote(folder), safe="/~@:+,;=!$&'()*")
    root = urlunsplit((parts.scheme, parts.netloc, folder, parts.query, ""))
    return Address(parts.scheme, root, unquote(key), shown)


def address_below(folder: str, path: str) -> str:
    """The address of a file by the address of a folder, and the file's path from there."""
    from urllib.parse import quote, urlsplit

    parts = urlsplit(folder)
    if parts.scheme not in ("http", "https"):
        return f"{folder.rstrip('/')}/{path}"
    return parts._replace(path=f"{parts.path.rstrip('/')}/{quote(path)}", fragment="").geturl()


def without_secrets(text: str) -> str:
    """A text without the users, passwords and queries of the addresses in it."""
    text = re.sub(r"(://)[^/@\s\"']*@", r"\1", text)
    return re.sub(r"(://[^?\s\"']*)\?[^\s\"']*", r"\1", text)
