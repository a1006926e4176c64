"""Files that change on the server while they are read: a read raises an error, or returns the values of one version."""

from __future__ import annotations

import datetime
from email.utils import format_datetime

import numpy as np
import pytest
from object_server import ObjectServer, Pieces, State
from served_models import head, tensor_head

import onnxwire as ow

KIB = 1 << 10
SIZES = [400 * KIB, 5000 * KIB, 300 * KIB]
MODIFICATION_TIME = datetime.datetime(2025, 6, 2, 10, 0, 0, tzinfo=datetime.UTC)


def make_version(number: int) -> Pieces:
    """Return a version of a model of about 6 MB. All versions have the same structure and different weights."""
    # The fields are initializer (5) of the graph, and ir_version (1, value 9) and graph (7) of the model.
    graph = []
    for i, size in enumerate(SIZES):
        tensor_start = tensor_head(f"weight{i}", size)
        graph += [head(5, len(tensor_start) + size) + tensor_start, bytes([number * 16 + i]) * size]
    length = sum(map(len, graph))
    return Pieces(b"\x08\x09" + head(7, length), *graph)


def http_date(seconds: float) -> str:
    return format_datetime(MODIFICATION_TIME + datetime.timedelta(seconds=seconds), usegmt=True)


# Each of the following functions makes the server describe the file in one way. number: the version of the file.


def strong_etag(state: State, number: int) -> None:
    state.etag, state.modified = f'"{number}"', http_date(number)


def strong_etag_alone(state: State, number: int) -> None:
    state.etag, state.modified = f'"{number}"', None


def weak_etag(state: State, number: int) -> None:
    state.etag, state.modified = f'W/"{number}"', None


def weak_etag_and_time(state: State, number: int) -> None:
    """Send a weak ETag, which may be the same for other bytes, and a modification time that differs."""
    state.etag, state.modified = 'W/"same"', http_date(number)


def modification_time(state: State, number: int) -> None:
    state.etag, state.modified, state.date = None, http_date(number), http_date(100)


def modification_time_with_invalid_date(state: State, number: int) -> None:
    state.etag, state.modified, state.date = None, http_date(number), "no date"


def written_in_current_second(state: State, number: int) -> None:
    """Send the current second as the modification time of every version."""
    state.etag, state.modified, state.date = None, http_date(0), http_date(0)


def written_in_future(state: State, number: int) -> None:
    state.etag, state.modified, state.date = None, http_date(9999), http_date(0)


def malformed_time(state: State, number: int) -> None:
    state.etag, state.modified = None, "yesterday"


def version_id(state: State, number: int) -> None:
    state.etag, state.modified, state.extra_headers = None, None, {"x-amz-version-id": str(number)}


def no_version(state: State, number: int) -> None:
    state.etag, state.modified = None, None


VERSION_KINDS = [
    strong_etag, strong_etag_alone, weak_etag, weak_etag_and_time, modification_time,
    modification_time_with_invalid_date, written_in_current_second, written_in_future, malformed_time, version_id,
    no_version,
]  # fmt: skip


def read_versions(server: ObjectServer) -> set[int]:
    """Return the numbers of the versions to which the weights of a model belong."""
    with ow.load(f"{server.url}/m.onnx", storage_options={"retry_config": {"max_retries": 0}}) as message:
        versions = set()
        for i, tensor in enumerate(message.graph.initializer):
            versions |= {(value - i) // 16 for value in np.flatnonzero(np.bincount(tensor.numpy()))}
        return versions


@pytest.mark.filterwarnings("ignore:.*complete file was downloaded")
@pytest.mark.parametrize("heeds_conditions", [True, False])
@pytest.mark.parametrize("set_version", VERSION_KINDS)
def test_no_two_versions_are_mixed(set_version, heeds_conditions) -> None:
    """Before the n-th request, for every n, the server replaces the file by one of the same size.

    heeds_conditions: whether the server evaluates If-Match and If-Unmodified-Since.
    """
    pieces = [make_version(1), make_version(2)]

    def make_server(change_at: int | None) -> ObjectServer:
        """Return a server that replaces the file before the request with the index `change_at`; never for None."""
        server = ObjectServer({"m.onnx": pieces[0]})
        set_version(server.state, 1)
        server.state.heeds_conditions = heeds_conditions

        def replace_file(state: State, index: int) -> None:
            if index == change_at:
                state.files["/m.onnx"] = pieces[1]
                set_version(state, 2)

        server.state.on_request = replace_file
        return server

    with make_server(None) as server:
        assert read_versions(server) == {1}
        n_requests = len(server.state.requests)
    for index in range(n_requests + 1):
        with make_server(index) as server:
            try:
                assert len(read_versions(server)) == 1, f"changed before request {index}"
            except ow.SourceError as error:
                assert index > 0 and "changed" in str(error)


@pytest.mark.parametrize(
    ("set_version", "name"),
    [
        (strong_etag, "if-match"),
        (weak_etag_and_time, "if-unmodified-since"),
        (modification_time, "if-unmodified-since"),
    ],
)
def test_each_request_after_the_first_contains_the_version(set_version, name) -> None:
    with ObjectServer({"m.onnx": make_version(1)}) as server:
        set_version(server.state, 1)
        assert read_versions(server) == {1}
        first_request, *later_requests = server.state.requests
        assert not {"if-match", "if-unmodified-since"} & set(first_request.headers)
        expected = {"if-match": '"1"', "if-unmodified-since": http_date(1)}
        assert later_requests and {request.headers[name] for request in later_requests} == {expected[name]}


def test_a_file_with_a_too_recent_time_is_requested_again() -> None:
    """The file was written in the current second; one second later its time distinguishes it from any later version."""
    with ObjectServer({"m.onnx": make_version(1)}) as server:
        server.state.etag, server.state.modified, server.state.date = None, http_date(0), http_date(0)

        def advance_date(state: State, index: int) -> None:
            state.date = http_date(index)

        server.state.on_request = advance_date
        assert read_versions(server) == {1}
        ranges = [request.headers.get("range") for request in server.state.requests]
        assert ranges[0] == ranges[1] and len(ranges) > 2 and None not in ranges


@pytest.mark.parametrize("set_version", [no_version, written_in_current_second, written_in_future])
def test_without_a_version_a_file_is_read_completely_or_refused(set_version) -> None:
    large_pieces = Pieces(b"\x08\x09", 300 << 20)  # ir_version 9, and 300 MiB
    with ObjectServer({"m.onnx": make_version(1), "large.onnx": large_pieces}) as server:
        set_version(server.state, 1)
        with (
            pytest.warns(UserWarning, match="identify versions of a file"),
            ow.load(f"{server.url}/m.onnx") as message,
        ):
            server.state.reset()
            assert message.graph.initializer[1].nbytes == SIZES[1]
            assert set(message.graph.initializer[1].numpy().tobytes()) == {1 * 16 + 1}  # version 1, weight 1
            assert not server.state.requests
        with pytest.raises(ow.SourceError, match="identify versions of a file"):
            ow.load(f"{server.url}/large.onnx")


def test_only_files_whose_version_identifies_the_bytes_are_cached_on_disk(tmp_path) -> None:
    with ObjectServer({"m.onnx": make_version(1)}) as server:
        for set_version, is_cached in (
            (weak_etag, False),
            (weak_etag_and_time, False),
            (strong_etag, True),
            (modification_time, True),
            (version_id, True),
        ):
            set_version(server.state, 1)
            folder = tmp_path / set_version.__name__
            with ow.load(f"{server.url}/m.onnx", cache=folder) as message:
                message.graph.initializer[1].numpy()
            assert bool(list(folder.glob("*/*.data"))) == is_cached, set_version.__name__
            server.state.extra_headers, server.state.date = {}, None


@pytest.mark.parametrize(
    "text",
    ["bytes 0-65535/*", "bytes */6241000", "bytes 0-65535", "octets 0-65535/6241000", "", "bytes 0-65535/-1"],
)
def test_without_a_usable_content_range_the_complete_file_is_requested(text) -> None:
    with ObjectServer({"m.onnx": make_version(1)}) as server:
        server.state.extra_headers = {"Content-Range": text, "Content-Type": "multipart/byteranges"}
        with pytest.warns(UserWarning, match="complete file was downloaded"):
            assert read_versions(server) == {1}
        # If Content-Range hides the size, the last byte is requested, because its offset reveals the size.
        size_request = ["bytes=-1"] if text.endswith("/*") and not text.endswith("*/*") else []
        ranges = [request.headers.get("range") for request in server.state.requests]
        assert ranges == ["bytes=0-65535", *size_request, None]


def test_a_compressed_response_is_refused() -> None:
    with ObjectServer({"m.onnx": make_version(1)}) as server:
        server.state.extra_headers = {"Content-Encoding": "gzip"}
        with pytest.raises(ow.SourceError, match="compressed"):
            ow.load(f"{server.url}/m.onnx")
