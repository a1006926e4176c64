"""Find the files that addresses, folders and patterns name on servers, and their current versions."""

from __future__ import annotations

import asyncio
import errno
import itertools
import re
import warnings
from contextlib import suppress
from fnmatch import fnmatchcase

from onnxwire.errors import SourceError, count_text
from onnxwire.io.remote.address import HUB_SCHEME, WEB_SCHEMES, address_below, parse_address
from onnxwire.io.remote.failures import RangeError, RequestError, UnknownHostError
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

_MAX_CONCURRENT = 32  # maximum number of concurrent requests for versions
_PAGE_FILES = 1000  # files in one response
_EMPTY_NAME_ERROR = (
    "a key in this folder contains //, /./ or /../, which obstore can't list; in S3, boto3 can: "
    "pip install 'onnxwire[s3]'"
)
_LIST_ERROR = "the server does not list folders; pass the address of each model"


def versions_of(
    addresses: Sequence[Address], options: Options = None, *, models: Sequence[Address] | None = None
) -> list[Version | SourceError]:
    """Return the version of each file, or the error of its request.

    models: for external data, the model of each file; redirects of the data may lead to servers to which the model was
    redirected.
    """
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
    pairs = zip(addresses, models or itertools.repeat(None, len(addresses)), strict=True)
    return run(_gather(_version_or_error(address, options, semaphore, model) for address, model in pairs))


def find_files(sources: Iterable[str], options: Options = None) -> list[list[tuple[str, Version]] | SourceError]:
    """Return the (address, version) pairs of the files that each address names, or the error of the address.

    An address is a folder if it ends with /, if it names only a server, bucket or repository, or if there is no file at
    it. A folder names all files below it that end with .onnx. In a pattern, * matches any characters of a name, [] one
    of several characters, ** any number of folders, and ? one character unless it begins a query.
    """
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
    return run(_gather(_find_or_error(source, options, semaphore) for source in sources))


async def _gather(requests: Iterable[Awaitable[Any]]) -> list[Any]:
    """Run coroutines concurrently. Return their results in order."""
    return await asyncio.gather(*requests)


async def _find_or_error(
    source: str, options: Options, semaphore: asyncio.Semaphore
) -> list[tuple[str, Version]] | SourceError:
    try:
        return await _find_source(source, options, semaphore)
    except SourceError as error:
        return error


async def _find_source(source: str, options: Options, semaphore: asyncio.Semaphore) -> list[tuple[str, Version]]:
    """Return the (address, version) pairs of the files that an address names. Raises SourceError."""
    is_web = source.partition("://")[0].lower() in WEB_SCHEMES
    path, question_mark, query = source.partition("?") if is_web else (source, "", "")
    names = path.split("/")
    # The number of parts before the first pattern; the first three are the scheme, an empty part and the host.
    n_fixed = next((i for i, name in enumerate(names) if i > 2 and re.search(r"[*?[]", name)), None)
    if n_fixed is not None:
        return await _list("/".join(names[:n_fixed]) + question_mark + query, names[n_fixed:], options)
    if path.endswith("/") or len(names) == 3 or _is_repository(source):
        return await _list(source, None, options)
    version = await _version_or_error(parse_address(source), options, semaphore)
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


async def _version_or_error(
    address: Address, options: Options, semaphore: asyncio.Semaphore, model: Address | None = None
) -> Version | SourceError:
    """Return the version of a file, or the error of its request. model: as an element of `models` of `versions_of`."""
    async with semaphore:
        try:
            if model is None:
                return await _read_version(address, options, hosts_of(address))
            hosts = hosts_of(model)
            try:
                return await _read_version(address, options, hosts, is_model=False)
            except UnknownHostError:
                # A request for the model adds the targets of its redirects to `hosts`.
                await _read_version(model, options, hosts)
                return await _read_version(address, options, hosts, is_model=False)
        except SourceError as error:
            return error
        except Exception as error:
            return source_error(error, address.shown)


async def _read_version(address: Address, options: Options, hosts: Hosts | None, *, is_model: bool = True) -> Version:
    """Request the version of a file. Raises SourceError and the errors of the library."""
    # One byte is requested, because servers reject HEAD for an address that is signed for GET.
    reader = reader_of(open_store(address, options), address, hosts, is_model=is_model)
    try:
        return (await reader.read(0, 1, None))[1]
    except RangeError:
        return (await reader.read_all(0))[1]


async def _walk_folder(address: Address, options: Options) -> AsyncIterator[tuple[tuple[str, ...], Version]]:
    """Iterate over the files in and below the folder of an address: the names on their paths, and versions."""
    store = open_store(address, options)
    if address.site is not None:
        async for file in store.list_folder(address):
            yield file
        return
    prefix = address.key.rpartition("/")[0]
    try:
        async for descriptions in store.list(prefix or None, chunk_size=_PAGE_FILES):
            for description in descriptions:
                yield tuple(description["path"].removeprefix(prefix).lstrip("/").split("/")), version_of(description)
        return
    except Exception as error:
        if type(error).__name__ != "InvalidPathError":
            raise
    for file in await asyncio.to_thread(_list_keys_by_boto3, address, options):
        yield file


def _list_keys_by_boto3(address: Address, options: Options) -> list[tuple[tuple[str, ...], Version]]:
    """List a folder of a bucket that contains a key with a name "", "." or "..", such as a//b; obstore can't list it.

    Such a key can't be read either, so it is omitted, with a warning if it ends with .onnx.
    """
    from onnxwire.io.remote.s3_client import key_in_bucket, list_keys, open_bucket

    bucket = open_bucket(address, options)
    if bucket is None:
        raise SourceError(errno.EOPNOTSUPP, _EMPTY_NAME_ERROR, address.shown_folder)
    prefix = key_in_bucket(address).removesuffix("_")  # without the placeholder of `_list`
    files, n_unreadable = [], 0
    for key, version in list_keys(bucket, prefix):
        names = tuple(key.removeprefix(prefix).split("/"))
        if not {"", ".", ".."} & set(names):
            files.append((names, version))
        elif key.endswith(".onnx"):
            n_unreadable += 1
    if n_unreadable:
        models_text = f"{count_text(n_unreadable, 'model')} with //, /./ or /../ in the key"
        warnings.warn(f"{address.shown_folder}: the list omits {models_text}, which can't be read", stacklevel=2)
    return files


async def _list(folder: str, pattern: list[str] | None, options: Options) -> list[tuple[str, Version]]:
    """Return the files below a folder that match a pattern of names; without a pattern, all .onnx files."""
    # The file name _ is a placeholder, because an address always names a file.
    address = parse_address(address_below(folder, ["_"]))
    files: list[tuple[str, Version]] = []
    try:
        async for names, version in _walk_folder(address, options):
            if names[-1].lower().endswith(".onnx") if pattern is None else _matches(names, pattern):
                files.append((address_below(folder, names), version))
    except SourceError:
        raise
    except Exception as error:
        if isinstance(error, RequestError) and error.kind == "unlisted":
            raise SourceError(errno.EOPNOTSUPP, _LIST_ERROR, address.shown_folder) from None
        raise source_error(error, address.shown_folder) from None
    if not files:
        reason = "there is no .onnx file in this folder" if pattern is None else "no file matches the pattern"
        shown_address = address.shown_folder if pattern is None else "/".join([address.shown_folder, *pattern])
        raise SourceError.from_os_error(FileNotFoundError(errno.ENOENT, reason), shown_address)
    return files


def _matches(names: Sequence[str], pattern: list[str]) -> bool:
    """Return whether the names of a path match a pattern."""
    # The positions in the pattern that the names so far can reach. This takes O(names * pattern) time.
    positions = _skip_double_stars({0}, pattern)
    for name in names:
        next_positions = {
            i if pattern[i] == "**" else i + 1
            for i in positions
            if i < len(pattern) and _matches_name(name, pattern[i])
        }
        positions = _skip_double_stars(next_positions, pattern)
        if not positions:
            return False
    return len(pattern) in positions


def _matches_name(name: str, pattern_part: str) -> bool:
    return pattern_part == "**" or fnmatchcase(name, pattern_part)


def _skip_double_stars(positions: set[int], pattern: list[str]) -> set[int]:
    """Add the position after every ** at one of these positions, because ** also matches zero folders."""
    for i, part in enumerate(pattern):
        if part == "**" and i in positions:
            positions.add(i + 1)
    return positions
