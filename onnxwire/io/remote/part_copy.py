"""Save an edited model to S3 by copying the unchanged ranges of its source on the server (UploadPartCopy).

obstore copies whole objects only, so this uses boto3. A part has at least 5 MiB, except the last. So a change that
is not at the end sends at least 5 MiB. Each copy requires that the source's ETag is unchanged.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import NamedTuple

from onnxwire.engine.write import chunks_of
from onnxwire.errors import SaveError
from onnxwire.io.remote.s3_client import bucket_name, key_in_bucket, open_bucket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from onnxwire.engine.encoder import Piece
    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.file import RemoteFile
    from onnxwire.io.remote.s3_client import Bucket

_MIN_PART_BYTES = 5 << 20  # this limit and _MAX_PARTS are rules of S3
_MAX_PARTS = 10_000
_SENT_PART_BYTES = 1 << 23  # size of the parts into which bytes that are sent are divided
_COPIED_PART_BYTES = 1 << 28  # longer ranges are divided, since parts are copied concurrently
_MIN_COPIED_BYTES = 1 << 24  # if fewer bytes can be copied, the whole file is sent
_MAX_CONCURRENT = 8  # maximum number of concurrent requests
_CHANGED_ERROR = "the file that unchanged ranges are copied from was changed since it was opened; load it again"
_PRESIGNED_SECONDS = 604_800  # the longest validity of a presigned request

# A program that reads a presigned request to abort the upload, and sends the request if its pipe is closed without a
# second line. A server may fail while it receives a part, or store parts that arrive after the first request. So the
# request is sent up to six times, until the server rejects it, as it does if the upload does not exist. Source: Amazon
# S3 API, AbortMultipartUpload.
_GUARD = """
import sys, time, urllib.error, urllib.request
url = sys.stdin.readline().strip()
if url and not sys.stdin.readline():
    for seconds in (1, 2, 4, 8, 16, 0):
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=60).close()
        except urllib.error.HTTPError as error:
            if error.code < 500:
                break
        except OSError:
            pass
        time.sleep(seconds)
"""


class SourceRange(NamedTuple):
    """A range of a file on the server; as a part, it is copied on the server."""

    source: RemoteFile
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start


class SentPart(NamedTuple):
    """Bytes that are sent: pieces of an encoding, and ranges of a file on the server that are fetched first."""

    pieces: list[bytes | Piece | SourceRange]
    size: int


Part = SourceRange | SentPart


def plan_parts(segments: list[tuple[Any, int]], is_source: Callable[[RemoteFile], bool]) -> list[Part] | None:
    """Divide an encoding into parts. Return None if too few bytes can be copied, or there are too many parts.

    segments: pieces and their sizes in bytes. is_source: whether the server can copy from a file.
    """
    # First join adjacent pieces; then move bytes between parts until each part except the last has the minimum size.
    runs: list[Part] = []
    for piece, size in segments:
        source_range = _range_of(piece) if not isinstance(piece, bytes) else None
        last_part = runs[-1] if runs else None
        if source_range is not None and is_source(source_range.source):
            if (
                isinstance(last_part, SourceRange)
                and last_part.source is source_range.source
                and last_part.end == source_range.start
            ):
                runs[-1] = last_part._replace(end=source_range.end)
            else:
                runs.append(source_range)
        elif isinstance(last_part, SentPart):
            runs[-1] = SentPart([*last_part.pieces, piece], last_part.size + size)
        else:
            runs.append(SentPart([piece], size))
    parts: list[Part] = []
    for part in runs:
        last_part = parts[-1] if parts else None
        if isinstance(part, SourceRange):
            # A part that is sent is filled up to the minimum from the range after it.
            n_filled = max(_MIN_PART_BYTES - last_part.size, 0) if isinstance(last_part, SentPart) else 0
            if part.size - n_filled < _MIN_PART_BYTES:
                n_filled = part.size
            if n_filled:
                filler = part._replace(end=part.start + n_filled)
                if isinstance(last_part, SentPart):
                    parts[-1] = SentPart([*last_part.pieces, filler], last_part.size + n_filled)
                else:
                    parts.append(SentPart([filler], n_filled))
            if n_filled < part.size:
                parts.append(part._replace(start=part.start + n_filled))
        elif isinstance(last_part, SentPart):
            parts[-1] = SentPart([*last_part.pieces, *part.pieces], last_part.size + part.size)
        else:
            parts.append(part)
    if sum(part.size for part in parts if isinstance(part, SourceRange)) < _MIN_COPIED_BYTES:
        return None
    all_parts = [piece for part in parts for piece in (_divide(part) if isinstance(part, SourceRange) else [part])]
    count = sum(1 if isinstance(part, SourceRange) else -(-part.size // _SENT_PART_BYTES) for part in all_parts)
    return all_parts if count <= _MAX_PARTS else None


def _range_of(piece: Piece) -> SourceRange | None:
    """Return a piece's range of a file on a server; None for pieces of other bytes."""
    document, span = piece.payload.document, piece.payload.span
    if document is None or document.memory is None or span is None:
        return None
    return SourceRange(document.memory.source, *span)  # type: ignore[arg-type]


def _divide(part: SourceRange) -> list[Part]:
    """Divide a part into parts of nearly equal size, of at most _COPIED_PART_BYTES."""
    count = -(-part.size // _COPIED_PART_BYTES)
    bounds = [part.start + part.size * i // count for i in range(count + 1)]
    return [part._replace(start=start, end=end) for start, end in pairwise(bounds)]


def save_by_copies(
    pieces: list[bytes | Piece],
    total: int,
    address: Address,
    options: Mapping[str, Any] | None,
    progress: Callable[[int, int], object] | None,
) -> bool:
    """Save the pieces of an encoding to an address in S3.

    total: the size of the encoding in bytes. progress: as for `save`.
    The file appears when it is complete; the upload is aborted after an error, and by a second process if this process
    is killed. Returns False if nothing was saved and the pieces must be sent.
    Raises SaveError if a source has changed, or a request fails; SourceError if bytes to send can't be fetched.
    """
    sizes = [len(piece if isinstance(piece, bytes) else piece.payload) for piece in pieces]

    def is_source(source: RemoteFile) -> bool:
        origin = getattr(source, "origin", None)
        return origin is not None and origin.is_in_store_of(address, options) and source.version.is_strong

    parts = plan_parts(list(zip(pieces, sizes, strict=True)), is_source)
    bucket = open_bucket(address, options) if parts is not None else None
    if bucket is None or parts is None:
        return False
    from botocore.exceptions import BotoCoreError, ClientError

    target = {"Bucket": bucket.name, "Key": key_in_bucket(address)}
    outcome = "nothing was saved"
    try:
        with _upload(bucket, target) as upload:
            uploaded_parts = _transfer(bucket, {**target, "UploadId": upload}, parts, total, progress)
            _check_sources(bucket, parts, address)
            outcome = "the file may have been saved nevertheless; load it, or save again"
            bucket.client.complete_multipart_upload(
                **target, UploadId=upload, MultipartUpload={"Parts": uploaded_parts}
            )
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in ("PreconditionFailed", "NoSuchKey", "412"):
            raise SaveError(errno.ESTALE, _CHANGED_ERROR, address.shown) from None
        if error.operation_name in ("CreateMultipartUpload", "UploadPartCopy"):
            return False  # not permitted or not supported
        raise SaveError(errno.EIO, f"the server answered {code}; {outcome}", address.shown) from None
    except BotoCoreError as error:
        raise SaveError(errno.EIO, f"the request failed ({type(error).__name__}); {outcome}", address.shown) from None
    return True


def _check_sources(bucket: Bucket, parts: list[Part], address: Address) -> None:
    """Raise SaveError if a source has changed: some servers ignore the condition of a copy. Raises boto3's errors."""
    for source in {id(part.source): part.source for part in parts if isinstance(part, SourceRange)}.values():
        origin = source.origin.address
        description = bucket.client.head_object(Bucket=bucket_name(origin), Key=key_in_bucket(origin))
        if (description["ETag"], description["ContentLength"]) != (source.version.etag, source.size):
            raise SaveError(errno.ESTALE, _CHANGED_ERROR, address.shown)


@contextmanager
def _upload(bucket: Bucket, target: dict[str, str]) -> Iterator[str]:
    """Begin an upload and yield its id. Abort the upload after an exception, or if this process is killed.

    target: the arguments of boto3 that name the bucket and key.
    """
    upload = bucket.client.create_multipart_upload(**target)["UploadId"]
    guard: subprocess.Popen[str] | None = None
    try:
        parameters = {**target, "UploadId": upload}
        url = bucket.client.generate_presigned_url("abort_multipart_upload", parameters, _PRESIGNED_SECONDS)
        with suppress(OSError):  # no process could be started
            guard = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _GUARD],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )
            assert guard.stdin is not None
            print(url, file=guard.stdin, flush=True)
        yield upload
    except BaseException:
        with suppress(Exception):
            bucket.client.abort_multipart_upload(**target, UploadId=upload)
        raise
    finally:
        if guard is not None and guard.stdin is not None:
            with suppress(OSError):
                print("done", file=guard.stdin, flush=True)
                guard.stdin.close()
            guard.wait()


def _transfer(
    bucket: Bucket,
    upload: dict[str, str],
    parts: list[Part],
    total: int,
    progress: Callable[[int, int], object] | None,
) -> list[dict[str, Any]]:
    """Copy and send the parts, starting them in order. Return their numbers and ETags.

    upload: the arguments of boto3 that name the bucket, key and upload.
    """
    n_done = 0

    def report_part(size: int) -> None:
        """Count a part that the server has received or copied."""
        nonlocal n_done
        n_done += size
        if progress is not None:
            progress(n_done, total)

    def copy(number: int, part: SourceRange) -> str:
        """Copy a part on the server. Return the part's ETag."""
        origin = part.source.origin
        answer = bucket.client.upload_part_copy(
            **upload,
            PartNumber=number,
            CopySource={"Bucket": bucket_name(origin.address), "Key": key_in_bucket(origin.address)},
            CopySourceRange=f"bytes={part.start}-{part.end - 1}",
            CopySourceIfMatch=part.source.version.etag,
        )
        return str(answer["CopyPartResult"]["ETag"])

    def send(number: int, data: bytes) -> str:
        """Send a part. Return the part's ETag."""
        return str(bucket.client.upload_part(**upload, PartNumber=number, Body=data)["ETag"])

    with ThreadPoolExecutor(_MAX_CONCURRENT, "onnxwire-copy") as pool:
        jobs: list[tuple[Any, int]] = []
        etags: list[str] = []
        try:
            number = 0
            for part in parts:
                if isinstance(part, SourceRange):
                    number += 1
                    jobs.append((pool.submit(copy, number, part), part.size))
                    continue
                for data in _blocks(part):
                    number += 1
                    jobs.append((pool.submit(send, number, data), len(data)))
                    if len(jobs) - len(etags) >= _MAX_CONCURRENT:
                        job, size = jobs[len(etags)]
                        etags.append(job.result())
                        report_part(size)
            for job, size in jobs[len(etags) :]:
                etags.append(job.result())
                report_part(size)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]


def _blocks(part: SentPart) -> Iterator[bytes]:
    """Yield the bytes of a part in blocks of at least the minimum size; in one block if the part is shorter."""
    block = bytearray()
    n_left = part.size
    for chunk in _chunks(part):
        block += chunk
        while len(block) >= _SENT_PART_BYTES and n_left - _SENT_PART_BYTES >= _MIN_PART_BYTES:
            yield bytes(block[:_SENT_PART_BYTES])
            del block[:_SENT_PART_BYTES]
            n_left -= _SENT_PART_BYTES
    yield bytes(block)


def _chunks(part: SentPart) -> Iterator[memoryview]:
    """Yield the bytes of a part in chunks of any size."""
    for piece in part.pieces:
        if isinstance(piece, SourceRange):
            data = bytearray(piece.size)
            piece.source.read_into(piece.start, memoryview(data))
            yield memoryview(data)
        else:
            yield from chunks_of([piece], _SENT_PART_BYTES)
