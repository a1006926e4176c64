"""Upload a file to an address."""

from __future__ import annotations

import errno

from onnxwire.engine.write import chunks_of, missing_ranges
from onnxwire.errors import Error, SaveError
from onnxwire.io.remote.address import WEB_SCHEMES
from onnxwire.io.remote.remote_document import Origin
from onnxwire.io.remote.s3_client import S3_SCHEMES
from onnxwire.io.remote.schedule import Schedule
from onnxwire.io.remote.stores import source_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from onnxwire.engine.encoder import Piece

_PART_BYTES = 1 << 23  # size of a part, unless a file would have more than _MAX_PARTS parts
_MAX_PARTS = 9_000  # stores allow 10,000
_MAX_CONCURRENT = 4  # parts that are uploaded concurrently


def upload(
    pieces: list[bytes | Piece],
    total: int,
    address: str,
    store: Any,
    options: Mapping[str, Any] | None,
    progress: Callable[[int, int], object] | None,
) -> None:
    """Upload the pieces of an encoding, of `total` bytes, to an address.

    store, options, progress: as `store`, `storage_options` and `progress` of `save`.
    Only a few parts are in memory at a time, except for a plain HTTP server, which receives the file in one request.
    Pieces of files on servers are fetched as needed. The file appears when the last part is uploaded; on failure the
    parts are removed, and an old file at the address stays unchanged. Only a plain HTTP server may store an incomplete
    file.
    Raises SaveError if the upload fails; SourceError for an invalid address or invalid options, or if the data to write
    can't be read; TypeError for a store without `put`.
    """
    origin = Origin(address, store, options)
    data_error: BaseException | None = None
    n_sent = 0

    def read_chunks() -> Iterator[bytes]:
        """Yield the bytes of the encoding in chunks. Store an error of reading them or of `progress`."""
        nonlocal data_error, n_sent
        try:
            for chunk in chunks_of(pieces, _PART_BYTES):
                n_sent += len(chunk)
                yield bytes(chunk)
                if progress is not None:
                    progress(n_sent, total)
        except BaseException as error:
            data_error = error
            raise

    if not hasattr(origin.store, "put"):
        raise TypeError(f"to save, store= must be an obstore store, not {type(origin.store).__name__}")
    if store is None and origin.address.scheme in S3_SCHEMES and total > _PART_BYTES:
        from onnxwire.io.remote.part_copy import save_by_copies

        if save_by_copies(pieces, total, origin.address, options, progress):
            return
    part_bytes = max(_PART_BYTES, -(-total // _MAX_PARTS))
    try:
        with Schedule(missing_ranges(pieces)):
            # A plain HTTP server receives a file of any size in one request.
            is_single_request = origin.address.scheme in WEB_SCHEMES or total <= _PART_BYTES
            data = b"".join(read_chunks()) if is_single_request else read_chunks()
            if origin.address.site is not None:
                origin.store.put(origin.address, data)
            else:
                origin.store.put(
                    origin.address.key,
                    data,
                    use_multipart=not is_single_request,
                    chunk_size=part_bytes,
                    max_concurrency=_MAX_CONCURRENT,
                )
    except BaseException as error:
        if data_error is not None:
            raise data_error from None
        if isinstance(error, Error) or not isinstance(error, Exception):
            raise
        failure = source_error(error, origin.address.shown)
        advice = f"{n_sent:,} of {total:,} bytes were passed to the upload"
        if origin.address.site is None:  # a plain HTTP server may have stored a part
            advice = f"nothing was saved; {advice}"
        raise SaveError.from_os_error(failure, origin.address.shown, advice) from None
    if n_sent != total:
        raise SaveError(errno.EIO, f"{n_sent:,} of {total:,} bytes were sent", origin.address.shown)
