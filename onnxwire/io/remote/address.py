"""Addresses of files on servers: what is shown of them, and what the libraries are given."""

from __future__ import annotations

import re
from collections import namedtuple

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_address(source: object) -> bool:
    """Whether a source is the address of a file on a server, such as https://host/model.onnx or s3://bucket/model."""
    return isinstance(source, str) and "://" in source and _SCHEME.match(source) is not None


class Address(namedtuple("Address", ("scheme", "folder", "key", "shown"))):
    """Where a file is: the folder as the library takes it, and the file's name in it.

    shown: the address as errors and reports show it, without the user, the password and the query, any of which may be
    somebody's credentials.
    """

    __slots__ = ()
    scheme: str
    folder: str
    key: str
    shown: str

    def beside(self, location: str) -> Address:
        """The address of a file that a location leads to, from the folder of this one."""
        names = [name for name in location.split("/") if name not in ("", ".")]
        return Address(self.scheme, self.folder, "/".join(names), f"{self.shown_folder}/{'/'.join(names)}")

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
    folder, _, key = path.rpartition("/")
    if not host or not key:
        raise ValueError("the address names no file")
    shown = f"{parts.scheme}://{host}/{path.lstrip('/')}"
    if not is_web:
        return Address(parts.scheme, f"{parts.scheme}://{parts.netloc}/{folder}".rstrip("/"), key, shown)
    key = unquote(key)
    folder = quote(unquote(folder), safe="/~@:+,;=!$&'()*")
    return Address(parts.scheme, urlunsplit((parts.scheme, parts.netloc, folder, parts.query, "")), key, shown)


def without_secrets(text: str) -> str:
    """A text without the users, passwords and queries of the addresses in it."""
    text = re.sub(r"(://)[^/@\s\"']*@", r"\1", text)
    return re.sub(r"(://[^?\s\"']*)\?[^\s\"']*", r"\1", text)
