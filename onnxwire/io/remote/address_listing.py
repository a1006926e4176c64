"""Find the files that addresses, folders and patterns name on servers, and their current versions."""

from __future__ import annotations

import asyncio
import errno
import itertools
import re
import warnings
from contextlib import suppress
from fnmatch import fnmatchcase

from onnxwire.errors import SourceError
from onnxwire.io.remote.address import HUB_SCHEME, WEB_SCHEMES, address_below, parse_address
from onnxwire.io.remote.failures import RangeError, UnknownHostError
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.remote_document import hosts_of
from onnxwire.io.remote.stores import open_store, reader_of, source_error
from onnxwire.io.remote.version import version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
    from typing import Any

    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.hosts import Hosts
    from onnxwire.io.remote.version import Version

    Options = Mapping[str, Any] | None

_MAX_CONCURRENT = 32  # requests
_PAGE_SIZE = 1000  # files in one response
_CANT_LIST_EMPTY = (
    "a key in this folder contains //, /./ or /../, which obstore can't list; in S3, boto3 can: "
    "pip install 'onnxwire[s3]'"
)
_CANT_LIST = "the server does not list folders; name each model"


def look(
    addresses: Sequence[Address], options: Options = None, *, models: Sequence[Address] | None = None
) -> list[Version | SourceError]:
    """Return the version of each file, or the error of its request.

    models: for external data, the model of each file, whose redirects determine where redirects of the data may lead.
    """
    turns = asyncio.Semaphore(_MAX_CONCURRENT)
    pairs = zip(addresses, models or itertools.repeat(None, len(addresses)), strict=True)
    return run(_gather(_look_or_error(address, options, turns, model) for address, model in pairs))


def find(sources: Iterable[str], options: Options = None) -> list[list[tuple[str, Version]] | SourceError]:
    """Return the (address, version) pairs of the files that each address names, or the error.

    An address that ends with /, or of which no file exists, is a folder, and names all files below it that end with
    .onnx. In a pattern, * and [] match parts of a name, ** matches any number of folders, and ? matches one character
    unless it begins a query.
    """
    turns = asyncio.Semaphore(_MAX_CONCURRENT)
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
    is_web = source.partition("://")[0].lower() in WEB_SCHEMES
    start, query, rest = source.partition("?") if is_web else (source, "", "")
    names = start.split("/")
    first = next((i for i, name in enumerate(names) if i > 2 and re.search(r"[*?[]", name)), None)
    if first is not None:
        return await _list("/".join(names[:first]) + query + rest, names[first:], options)
    if start.endswith("/") or len(names) == 3 or _is_repository(source):
        return await _list(source, None, options)
    version = await _look_or_error(parse_address(source), options, turns)
    if not isinstance(version, SourceError):
        return [(source, version)]
    if isinstance(version, FileNotFoundError):
        with suppress(SourceError):
            return await _list(source, None, options)
    raise version


def _is_repository(source: str) -> bool:
    """Return whether an address is a repository of the Hub."""
    if not source.lower().startswith(f"{HUB_SCHEME}://"):
        return False
    from onnxwire.io.remote.hub_address import parse_hub_file

    try:
        return not parse_hub_file(source).path
    except ValueError:
        return False


async def _look_or_error(
    address: Address, options: Options, turns: asyncio.Semaphore, model: Address | None = None
) -> Version | SourceError:
    async with turns:
        try:
            if model is None:
                return await _look(address, options, hosts_of(address))
            hosts = hosts_of(model)
            try:
                return await _look(address, options, hosts, is_model=False)
            except UnknownHostError:
                await _look(model, options, hosts)
                return await _look(address, options, hosts, is_model=False)
        except SourceError as error:
            return error
        except Exception as error:
            return source_error(error, address.shown)


async def _look(address: Address, options: Options, hosts: Hosts | None, *, is_model: bool = True) -> Version:
    # One byte rather than HEAD, which servers refuse for an address that is signed for GET.
    reader = reader_of(open_store(address, options), address, hosts, is_model=is_model)
    try:
        return (await reader.read(0, 1, None))[1]
    except RangeError:
        return (await reader.read_all(0))[1]


async def _listed(address: Address, options: Options) -> AsyncIterator[tuple[tuple[str, ...], Version]]:
    """Iterate over the files in and below the folder of an address: the names on their paths, and versions."""
    store = open_store(address, options)
    if address.site is not None:
        async for file in store.list_folder(address):
            yield file
        return
    prefix = address.key.rpartition("/")[0]
    try:
        async for metas in store.list(prefix or None, chunk_size=_PAGE_SIZE):
            for meta in metas:
                yield tuple(meta["path"].removeprefix(prefix).lstrip("/").split("/")), version_of(meta)
        return
    except Exception as error:
        if type(error).__name__ != "InvalidPathError":
            raise
    for file in await asyncio.to_thread(_list_readable, address, options):
        yield file


def _list_readable(address: Address, options: Options) -> list[tuple[tuple[str, ...], Version]]:
    """List a folder of a bucket that contains a key with an empty name, such as a//b, at which obstore fails.

    Such a key can't be read either, so it is left out, with a warning if it ends with .onnx.
    """
    from onnxwire.io.remote.s3_client import key_in_bucket, list_keys, open_bucket

    bucket = open_bucket(address, options)
    if bucket is None:
        raise SourceError(errno.EOPNOTSUPP, _CANT_LIST_EMPTY, address.shown_folder)
    prefix = key_in_bucket(address).removesuffix("_")
    found, left_out = [], 0
    for key, version in list_keys(bucket, prefix):
        names = tuple(key.removeprefix(prefix).split("/"))
        if not {"", ".", ".."} & set(names):
            found.append((names, version))
        elif key.endswith(".onnx"):
            left_out += 1
    if left_out:
        reason = f"{left_out:,} models whose keys contain //, /./ or /../ can't be read, and are not listed"
        warnings.warn(f"{address.shown_folder}: {reason}", stacklevel=2)
    return found


async def _list(folder: str, pattern: list[str] | None, options: Options) -> list[tuple[str, Version]]:
    """Return the files below a folder that match a pattern of names; without a pattern, all .onnx files."""
    address = parse_address(address_below(folder, ["_"]))
    found: list[tuple[str, Version]] = []
    try:
        async for names, version in _listed(address, options):
            if names[-1].lower().endswith(".onnx") if pattern is None else _matches(names, pattern):
                found.append((address_below(folder, names), version))
    except SourceError:
        raise
    except Exception as error:
        if address.scheme in WEB_SCHEMES:
            raise SourceError(errno.EOPNOTSUPP, _CANT_LIST, address.shown_folder) from None
        raise source_error(error, address.shown_folder) from None
    if not found:
        reason = "there is no .onnx file in this folder" if pattern is None else "no file matches the pattern"
        shown = address.shown_folder if pattern is None else "/".join([address.shown_folder, *pattern])
        raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, reason), shown)
    return found


def _matches(names: Sequence[str], pattern: list[str]) -> bool:
    """Return whether the names of a path match a pattern."""
    # The set of positions in the pattern that the names so far can reach: O(names * pattern) time.
    positions = _with_skipped({0}, pattern)
    for name in names:
        after = {
            i if pattern[i] == "**" else i + 1
            for i in positions
            if i < len(pattern) and _matches_name(name, pattern[i])
        }
        positions = _with_skipped(after, pattern)
        if not positions:
            return False
    return len(pattern) in positions


def _matches_name(name: str, part: str) -> bool:
    return part == "**" or fnmatchcase(name, part)


def _with_skipped(positions: set[int], pattern: list[str]) -> set[int]:
    """Add the position after every ** at one of these positions: ** also matches no folder."""
    for i, part in enumerate(pattern):
        if part == "**" and i in positions:
            positions.add(i + 1)
    return positions
