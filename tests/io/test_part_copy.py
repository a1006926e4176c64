"""Edited models are saved to S3 by copying unchanged ranges on the server."""

from __future__ import annotations

import http.server
import signal
import subprocess
import sys
import threading
import time

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto.server import ThreadedMotoServer
from served_models import model

import onnxwire as ow
from onnxwire.io.remote import part_copy
from onnxwire.io.remote.part_copy import SentPart, SourceRange, plan_parts

MIB = 1 << 20
MODEL_PIECES = model([8 * MIB] * 4, nodes=30)
DATA = MODEL_PIECES.read(0, MODEL_PIECES.size)


@pytest.fixture(scope="module")
def bucket():
    """Return a client of a bucket with a model, and the options of a store of this bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    options = {"endpoint": url, "region": "us-east-1", "access_key_id": "key", "secret_access_key": "hunter2"}
    options["client_options"] = {"allow_http": True}
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="hunter2"
    )
    client.create_bucket(Bucket="bucket")
    client.put_object(Bucket="bucket", Key="a b/from.onnx", Body=DATA)
    yield client, options
    server.stop()


def edited_bytes() -> bytes:
    """Return the encoding of the model with one renamed node."""
    local_model = ow.ModelProto.FromString(DATA)
    local_model.graph.node[2].name = "another, longer name"
    return local_model.SerializeToString()


def stored_bytes(client, key: str) -> bytes:
    return client.get_object(Bucket="bucket", Key=key)["Body"].read()


def list_uploads(client) -> list[object]:
    """Return the multipart uploads to the bucket that are neither complete nor aborted."""
    return client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])


@pytest.fixture
def sent_sizes(monkeypatch):
    """Return a list to which the size in bytes of each block is added that `part_copy` sends."""
    sizes: list[int] = []
    split_blocks = part_copy._blocks

    def record_sizes(part):
        for block in split_blocks(part):
            sizes.append(len(block))
            yield block

    monkeypatch.setattr(part_copy, "_blocks", record_sizes)
    return sizes


def test_a_rename_sends_at_most_six_mebibytes(bucket, sent_sizes) -> None:
    client, options = bucket
    calls: list[tuple[int, int]] = []
    with ow.load("s3://bucket/a b/from.onnx", storage_options=options) as message:
        message.graph.node[2].name = "another, longer name"
        total = ow.save(
            message, "s3://bucket/to.onnx", storage_options=options, progress=lambda *position: calls.append(position)
        )
        received = message._document.memory.source.received
    assert stored_bytes(client, "to.onnx") == edited_bytes()
    assert sum(sent_sizes) <= 6 * MIB and received <= 6 * MIB
    assert calls[-1] == (total, total) == (len(edited_bytes()),) * 2
    assert list_uploads(client) == []


def test_a_model_is_saved_over_itself(bucket, sent_sizes) -> None:
    client, options = bucket
    client.put_object(Bucket="bucket", Key="self.onnx", Body=DATA)
    with ow.load("s3://bucket/self.onnx", storage_options=options) as message:
        message.graph.node[2].name = "another, longer name"
        ow.save(message, "s3://bucket/self.onnx", storage_options=options)
    assert stored_bytes(client, "self.onnx") == edited_bytes() and sum(sent_sizes) <= 6 * MIB


def test_a_changed_source_is_an_error_and_leaves_the_target_unchanged(bucket) -> None:
    client, options = bucket
    client.put_object(Bucket="bucket", Key="changing.onnx", Body=DATA)
    client.put_object(Bucket="bucket", Key="old.onnx", Body=b"old")
    with ow.load("s3://bucket/changing.onnx", storage_options=options) as message:
        message.graph.node[2].name = "another"
        client.put_object(Bucket="bucket", Key="changing.onnx", Body=DATA[:-1] + b"\1")
        with pytest.raises(ow.Error, match="changed"):
            ow.save(message, "s3://bucket/old.onnx", storage_options=options)
    assert stored_bytes(client, "old.onnx") == b"old" and list_uploads(client) == []


def test_a_source_that_changes_during_the_copy_is_an_error(bucket) -> None:
    client, options = bucket
    client.put_object(Bucket="bucket", Key="changing.onnx", Body=DATA)

    def change(n_written: int, total: int) -> None:
        client.put_object(Bucket="bucket", Key="changing.onnx", Body=DATA[:-1] + b"\1")

    with ow.load("s3://bucket/changing.onnx", storage_options=options) as message:
        message.graph.node[2].name = "another"
        with pytest.raises(ow.SaveError, match="changed"):
            ow.save(message, "s3://bucket/none.onnx", storage_options=options, progress=change)
    assert list_uploads(client) == []
    assert "Contents" not in client.list_objects_v2(Bucket="bucket", Prefix="none")


def test_the_error_after_a_lost_last_answer_does_not_claim_that_nothing_was_saved(bucket, monkeypatch) -> None:
    client, options = bucket
    open_bucket = part_copy.open_bucket

    def open_unreliable_bucket(*args):
        result = open_bucket(*args)
        complete = result.client.complete_multipart_upload

        def complete_and_lose_the_answer(**arguments):
            complete(**arguments)
            raise ReadTimeoutError(endpoint_url="s3")

        monkeypatch.setattr(result.client, "complete_multipart_upload", complete_and_lose_the_answer)
        return result

    monkeypatch.setattr(part_copy, "open_bucket", open_unreliable_bucket)
    with ow.load("s3://bucket/a b/from.onnx", storage_options=options) as message:
        message.graph.node[2].name = "another, longer name"
        with pytest.raises(ow.SaveError, match="may have been saved"):
            ow.save(message, "s3://bucket/lost.onnx", storage_options=options)
    assert stored_bytes(client, "lost.onnx") == edited_bytes()


def test_a_failed_save_leaves_no_parts(bucket) -> None:
    client, options = bucket

    def fail(n_written: int, total: int) -> None:
        raise KeyboardInterrupt

    with ow.load("s3://bucket/a b/from.onnx", storage_options=options) as message:
        message.graph.node[2].name = "another"
        with pytest.raises(KeyboardInterrupt):
            ow.save(message, "s3://bucket/none.onnx", storage_options=options, progress=fail)
    assert list_uploads(client) == []


def test_a_killed_save_leaves_no_parts(bucket) -> None:
    client, options = bucket
    program = f"""
import os, signal
import onnxwire as ow
with ow.load("s3://bucket/a b/from.onnx", storage_options={options!r}) as message:
    message.graph.node[2].name = "another"
    ow.save(message, "s3://bucket/killed.onnx", storage_options={options!r},
            progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""
    process = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr
    for _ in range(600):
        if not list_uploads(client):
            break
        time.sleep(0.05)
    assert list_uploads(client) == []
    assert "Contents" not in client.list_objects_v2(Bucket="bucket", Prefix="killed")


def test_the_abort_of_an_upload_is_repeated_until_the_upload_is_gone() -> None:
    answers, methods = [500, 503, 204, 404], []  # `_GUARD` sends up to six requests, until a 4xx answer

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            methods.append(self.command)
            self.send_response(answers.pop(0))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = part_copy._GUARD.replace("time.sleep(seconds)", "time.sleep(0.01)")
        command = [sys.executable, "-I", "-S", "-c", program]
        subprocess.run(command, input=f"http://127.0.0.1:{server.server_port}/upload\n", text=True, check=True)
        server.shutdown()
    assert (methods, answers) == (["DELETE"] * 4, [])


def test_models_of_other_sources_are_sent_completely(bucket, sent_sizes) -> None:
    client, options = bucket
    local_model = ow.ModelProto.FromString(DATA)
    ow.save(local_model, "s3://bucket/local.onnx", storage_options=options)
    assert stored_bytes(client, "local.onnx") == DATA
    assert sent_sizes == []  # `part_copy` was not used


class Payload:
    """A substitute for the payload of a tensor in a remote file: the bytes `span` of `document`.

    The object also represents the document, its memory and the file.
    """

    def __init__(self, start: int, end: int) -> None:
        self.document = self
        self.memory = self
        self.source = self
        self.span = start, end


class Piece:
    """A substitute for a segment of an encoding that is a range of the remote file."""

    def __init__(self, start: int, end: int) -> None:
        self.payload = Payload.__new__(Payload)
        self.payload.document = SOURCE
        self.payload.span = start, end


SOURCE = Payload(0, 0)  # the document of each Piece


def test_the_blocks_of_a_sent_part_count_towards_the_limit_of_parts(monkeypatch) -> None:
    # 13 ranges of 1 MiB, with gaps of 1 MiB between them, are sent in blocks of 8 and 5 MiB; the last range is copied.
    segments = [(Piece(start, start + MIB), MIB) for start in range(0, 26 * MIB, 2 * MIB)]
    segments.append((Piece(10**9, 10**9 + 40 * MIB), 40 * MIB))
    for max_parts in (2, 3):
        monkeypatch.setattr(part_copy, "_MAX_PARTS", max_parts)
        assert (plan_parts(segments, lambda source: True) is None) == (max_parts == 2)


@pytest.mark.parametrize("seed", range(50))
def test_planned_parts_cover_the_encoding_and_have_at_least_5_mib_except_the_last(seed) -> None:
    """The segments are ranges of the file and literals, chosen at random."""
    import random

    rng = random.Random(seed)
    segments: list[tuple[object, int]] = []
    for _ in range(rng.randrange(1, 12)):
        size = rng.choice((1, 1000, MIB, 5 * MIB - 1, 5 * MIB, 6 * MIB, 40 * MIB, 700 * MIB))
        start = rng.choice((0, 10 * MIB, 10**9))
        is_range = rng.random() < 0.6
        segments.append((Piece(start, start + size), size) if is_range else (bytes(min(size, 1000)), min(size, 1000)))
    parts = plan_parts(segments, lambda source: True)
    if parts is None:  # the whole encoding is sent
        return
    assert all(part.size >= 5 * MIB for part in parts[:-1])
    flat_parts: list[object] = []
    for part in parts:
        flat_parts += [part] if isinstance(part, SourceRange) else part.pieces
    assert sum(part.size for part in parts) == sum(size for _, size in segments)
    assert all(sum(p.size if isinstance(p, SourceRange) else len(p) for p in part.pieces) == part.size
               for part in parts if isinstance(part, SentPart))  # fmt: skip

    def merge_pieces(pieces: list[object]) -> list[tuple[object, ...]]:
        """Return the ranges of the source, adjacent ranges merged, and the lengths of the literals, in their order."""
        ranges: list[tuple[object, ...]] = []
        for piece in pieces:
            span = (
                piece.payload.span
                if isinstance(piece, Piece)
                else (piece.start, piece.end)
                if isinstance(piece, SourceRange)
                else None
            )
            if span is None:
                ranges.append(("bytes", len(piece)))
            elif ranges and ranges[-1][0] == "range" and ranges[-1][2] == span[0]:
                ranges[-1] = "range", ranges[-1][1], span[1]
            else:
                ranges.append(("range", *span))
        return ranges

    assert merge_pieces(flat_parts) == merge_pieces([piece for piece, _ in segments])
