"""The files that addresses name, one by one, by a folder or by a pattern, and the versions that they have now."""

from __future__ import annotations

import asyncio
import errno
import re
from contextlib import suppress
from fnmatch import fnmatchcase

from onnxwire.errors import SourceError
from onnxwire.io.remote.address import address_below, parse_address, without_secrets
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.stores import RangeError, open_store, reader_of, source_error, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.stores import Version

    Options = Mapping[str, Any] | None

_AT_ONCE = 32  # files that are asked for at once
_LISTED = 1000  # files of an answer
_NO_LIST = "the server does not say which files are in a folder; name each model"


def look(addresses: Sequence[Address], options: Options = None) -> list[Version | SourceError]:
    """The version of each file, by a request each; for one that can't be had the reason."""
    turns = asyncio.Semaphore(_AT_ONCE)
    return run(_gather(_look_or_error(address, options, turns) for address in addresses))


def find(sources: Iterable[str], options: Options = None) -> list[list[tuple[str, Version]] | SourceError]:
    """The files that each address names, by their addresses; for one that names none or can't be asked the reason.

    The address of a folder ends with /, or has no file of its name; its files are those below that end with .onnx. In a
    pattern, * and [] stand for parts of a name, ** for any folders, and ? for a letter where it begins no query.
    """
    turns = asyncio.Semaphore(_AT_ONCE)
    return run(_gather(_find_or_error(source, options, turns) for source in sources))


async def _gather(work: Iterable[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*work)


async def _find_or_error(
    source: str, options: Options, turns: asyncio.Semaphore
) -> list[tuple[str, Version]] | SourceError:
    try:
        return await _find(source, options, turns)
    except SourceError as error:
        return error


async def _find(source: str, options: Options, turns: asyncio.Semaphore) -> list[tuple[str, Version]]:
    is_web = source.partition("://")[0].lower() in ("http", "https")
    start, query, rest = source.partition("?") if is_web else (source, "", "")
    names = start.split("/")
    first = next((i for i, name in enumerate(names) if i > 2 and re.search(r"[*?[]", name)), None)
    if first is not None:
        return await _list("/".join(names[:first]) + query + rest, names[first:], options)
    if start.endswith("/") or len(names) == 3:
        return await _list(source, None, options)
    version = await _look_or_error(_parsed(source), options, turns)
    if not isinstance(version, SourceError):
        return [(source, version)]
    if isinstance(version, FileNotFoundError):
        with suppress(SourceError):
            return await _list(source, None, options)
    raise version


def _parsed(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise SourceError(errno.EINVAL, str(error), without_secrets(text)) from None


async def _look_or_error(address: Address, options: Options, turns: asyncio.Semaphore) -> Version | SourceError:
    async with turns:
        try:
            return await _look(address, options)
        except SourceError as error:
            return error
        except Exception as error:
            return source_error(error, address.shown)


async def _look(address: Address, options: Options) -> Version:
    # A byte rather than HEAD, which is refused where an address is signed for GET.
    reader = reader_of(open_store(address, options), address.key)
    try:
        return (await reader.read(0, 1, None))[1]
    except RangeError:
        return (await reader.read_all(0))[1]


async def _list(folder: str, pattern: list[str] | None, options: Options) -> list[tuple[str, Version]]:
    """The files below a folder that fit a pattern of names; without one, those that end with .onnx."""
    address = _parsed(address_below(folder, "_"))
    store = open_store(address, options)
    prefix = address.key.rpartition("/")[0]
    found: list[tuple[str, Version]] = []
    try:
        async for metas in store.list(prefix or None, chunk_size=_LISTED):
            for meta in metas:
                path = meta["path"].removeprefix(prefix).lstrip("/")
                if path.endswith(".onnx") if pattern is None else _fits(path.split("/"), pattern):
                    found.append((address_below(folder, path), version_of(meta)))
    except Exception as error:
        if address.scheme in ("http", "https"):
            raise SourceError(errno.EOPNOTSUPP, _NO_LIST, address.shown_folder) from None
        raise source_error(error, address.shown_folder) from None
    if not found:
        what = "there is no .onnx file in this folder" if pattern is None else "no file fits the pattern"
        shown = address.shown_folder if pattern is None else "/".join([address.shown_folder, *pattern])
        raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, what), shown)
    return found


def _fits(names: list[str], pattern: list[str]) -> bool:
    """Whether the names of a path fit those of a pattern."""
    if not pattern or not names:
        return not names and all(name == "**" for name in pattern)
    if pattern[0] == "**":
        return _fits(names, pattern[1:]) or _fits(names[1:], pattern)
    return fnmatchcase(names[0], pattern[0]) and _fits(names[1:], pattern[1:])
