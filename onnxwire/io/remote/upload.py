"""Saving to an address: in parts, one after another, whole or not at all."""

from __future__ import annotations

import errno

from onnxwire.engine.write import chunks_of
from onnxwire.errors import Error, SaveError
from onnxwire.io.remote.address import WEB_SCHEMES
from onnxwire.io.remote.remote_document import Origin
from onnxwire.io.remote.stores import source_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from onnxwire.engine.encode import Piece

PART = 1 << 23  # bytes of a part; of a longer file a part is longer, since there are 10,000 at most
_MOST_PARTS = 9_000
_AT_ONCE = 4  # parts that are under way


def upload(
    pieces: list[bytes | Piece],
    total: int,
    address: str,
    store: Any,
    options: Mapping[str, Any] | None,
    progress: Callable[[int, int], object] | None,
) -> None:
    """Write the pieces of an encoding, of `total` bytes, to an address.

    They go there in parts, of which some are in memory; what is a range of a file on a server comes from there as it is
    needed. The file is there when the last part is, and not before: where anything fails, the parts are taken away, and
    what was at the address is as it was. Raises SaveError; SourceError where what is written can't be read.
    """
    origin = Origin(address, store, options)
    own: BaseException | None = None
    written = 0

    def parts() -> Iterator[bytes]:
        nonlocal own, written
        try:
            for chunk in chunks_of(pieces, PART):
                written += len(chunk)
                yield bytes(chunk)
                if progress is not None:
                    progress(written, total)
        except BaseException as error:
            own = error
            raise

    if not hasattr(origin.store, "put"):
        raise TypeError(f"store= takes a store of obstore to save to, not {type(origin.store).__name__}")
    size = max(PART, -(-total // _MOST_PARTS))
    try:
        # A server of plain HTTP takes a file in one piece.
        is_plain = origin.address.scheme in WEB_SCHEMES or total <= PART
        data = b"".join(parts()) if is_plain else parts()
        if origin.address.site is not None:
            origin.store.put(origin.address, data)
        else:
            origin.store.put(
                origin.address.key, data, use_multipart=not is_plain, chunk_size=size, max_concurrency=_AT_ONCE
            )
    except BaseException as error:
        if own is not None:
            raise own from None
        if isinstance(error, Error) or not isinstance(error, Exception):
            raise
        failure = source_error(error, origin.address.shown)
        advice = f"{written:,} of {total:,} bytes were sent, and nothing of them is there"
        raise SaveError.from_os_error(failure, origin.address.shown, advice) from None
    if written != total:
        raise SaveError(errno.EIO, f"{written:,} of {total:,} bytes were sent", origin.address.shown)
