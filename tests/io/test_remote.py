"""Models on a server: the requested ranges, the number of requests, the read values, and the cache on the disk."""

from __future__ import annotations

import random
import signal
import threading
from random import Random

import numpy as np
import pytest
from object_server import ObjectServer, Pieces
from served_models import model

import onnxwire as ow
from onnxwire.analysis.statistics import measure, measure_all
from onnxwire.io.remote import file as remote_file

MIB = 1 << 20


def payload(pieces: Pieces, info: ow.TensorInfo) -> bytes:
    """Return the bytes of a tensor. pieces: the contents of the model's file."""
    return pieces.read(info.offset, info.offset + info.nbytes)


def test_a_model_on_a_server_has_the_values_of_a_model_on_disk(tmp_path) -> None:
    pieces = model([5 * MIB, 300_000, 70_000, 1000, 0], nodes=3000)
    path = tmp_path / "model.onnx"
    path.write_bytes(pieces.read(0, pieces.size))
    with (
        ObjectServer({"m.onnx": pieces}) as server,
        ow.load(f"{server.url}/m.onnx") as remote_model,
        ow.load(path) as local_model,
    ):
        assert [info[:5] for info in ow.tensors(remote_model)] == [info[:5] for info in ow.tensors(local_model)]
        assert [info.offset for info in ow.tensors(remote_model)] == [info.offset for info in ow.tensors(local_model)]
        assert [node.name for node in remote_model.graph.node] == [node.name for node in local_model.graph.node]
        for remote_tensor, local_tensor in zip(
            remote_model.graph.initializer, local_model.graph.initializer, strict=True
        ):
            np.testing.assert_array_equal(remote_tensor.numpy(), local_tensor.numpy())
            assert remote_tensor.raw_data == local_tensor.raw_data
        assert remote_model == local_model
        assert remote_model.SerializeToString() == local_model.SerializeToString()
        assert remote_model.SerializeToString(deterministic=True) == local_model.SerializeToString(deterministic=True)
        ow.verify(f"{server.url}/m.onnx")


def test_opening_fetches_less_than_256_kib_in_at_most_two_round_trips(trips) -> None:
    pieces = model([100 * MIB] * 4)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        assert message.opset_import[0].version == 17
        assert trips.count <= 2
        assert server.state.sent < 1 << 18


# The sizes in bytes of the tensors of one layer.
LAYER_SIZES = [34 * MIB, 12 * MIB, 12 * MIB, 34 * MIB, 30 * MIB, 30 * MIB, 30 * MIB, 16_384, 16_384]


@pytest.mark.parametrize(
    ("sizes", "max_trips", "max_bytes"),
    [
        ([8 * MIB] * 125, 14, 4 * 10**6),
        (LAYER_SIZES * 32, 40, 8 * 10**6),
        (random.Random(5).choices([MIB, 3 * MIB, 5 * MIB, 300_000], k=60), 60, 16 * 10**6),
        ([100_000] * 700, 20, 5 * 10**6),
        ([100_000, 300_000, 66_000, 120_000, 80_000] * 110, 20, 13 * 10**6),
    ],
    ids=["one size", "layers", "random order", "small tensors of one size", "layers of small tensors"],
)
def test_listing_the_tensors_needs_few_round_trips(sizes, max_trips, max_bytes, trips) -> None:
    pieces = model(sizes)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        infos = ow.tensors(message)
        assert [info.nbytes for info in infos] == sizes
        assert trips.count <= max_trips
        assert server.state.sent <= max_bytes
        assert message._document.memory.resident <= max_bytes


def test_reading_a_tensor_fetches_at_most_256_kib_beyond_its_bytes() -> None:
    pieces = model([8 * MIB] * 20)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        tensor = message.graph.initializer[7]
        info = ow.tensors(message)[7]
        server.state.reset()
        assert tensor.numpy().tobytes() == payload(pieces, info)
        assert server.state.sent <= info.nbytes + (1 << 18)
        server.state.reset()
        assert bytes(tensor.raw_view) == payload(pieces, info)
        assert np.from_dlpack(tensor).nbytes == info.nbytes
        assert not server.state.requests


def test_reading_some_elements_fetches_less_than_256_kib() -> None:
    pieces = model([8 * MIB] * 20)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        tensor = message.graph.initializer[3]
        offset = ow.tensors(message)[3].offset
        server.state.reset()
        assert tensor.read(slice(MIB, MIB + 10)).tobytes() == pieces.read(offset + MIB, offset + MIB + 10)
        assert tensor.read(slice(None, None, MIB)).tolist() == [
            pieces.read(offset + i * MIB, offset + i * MIB + 1)[0] for i in range(8)
        ]
        assert server.state.sent < 1 << 18


def test_several_tensors_are_fetched_together(trips) -> None:
    pieces = model([MIB] * 20)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        infos = ow.tensors(message)
        server.state.reset()
        trips.count = 0
        ow.prefetch(message.graph.initializer)
        assert trips.count <= 3
        server.state.reset()
        for tensor, info in zip(message.graph.initializer, infos, strict=True):
            assert tensor.numpy().tobytes() == payload(pieces, info)
        assert not server.state.requests


def test_the_ranges_of_a_round_trip_are_requested_at_the_same_time() -> None:
    pieces = model([8 * MIB] * 16)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        infos = ow.tensors(message)
        server.state.reset()
        server.state.barrier = threading.Barrier(16)
        ow.prefetch(message.graph.initializer)
        assert len(server.state.requests) == 16
        server.state.barrier = None
        for tensor, info in zip(message.graph.initializer, infos, strict=True):
            assert tensor.numpy().tobytes() == payload(pieces, info)


def test_a_large_structure_is_read_in_few_round_trips(trips) -> None:
    pieces = model([2 * MIB] * 3, nodes=100_000)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        assert len(message.graph.node) == 100_000
        assert trips.count <= 10


def test_save_copies_unedited_payloads_from_the_server(tmp_path) -> None:
    pieces = model([5 * MIB, 300_000, 70_000, 1000])
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        message.graph.node[3].name = "another"
        ow.save(message, tmp_path / "out.onnx")
        assert message._document.memory.resident < MIB
        with open(tmp_path / "object.onnx", "wb") as file:
            ow.save(message, file)
    expected = ow.ModelProto.FromString(pieces.read(0, pieces.size))
    expected.graph.node[3].name = "another"
    assert (tmp_path / "out.onnx").read_bytes() == expected.SerializeToString()
    assert (tmp_path / "object.onnx").read_bytes() == expected.SerializeToString()


def test_an_empty_file_and_a_file_of_one_byte_raise_decode_error() -> None:
    with ObjectServer({"empty": b"", "one": b"\x08"}) as server:  # b"\x08": a tag without a value
        for name in ("empty", "one"):
            with pytest.raises(ow.DecodeError):
                ow.load(f"{server.url}/{name}")


def test_a_model_can_be_closed_only_after_its_arrays_are_released() -> None:
    with ObjectServer({"m.onnx": model([8 * MIB])}) as server:
        message = ow.load(f"{server.url}/m.onnx")
        tensor = message.graph.initializer[0]
        array = tensor.numpy()
        with pytest.raises(ow.InUseError):
            message.close()
        del array
        message.close()
        with pytest.raises(ow.ClosedError):
            tensor.numpy()


def test_a_file_on_a_server_without_ranges_is_read_completely_with_a_warning() -> None:
    pieces = model([MIB])
    with ObjectServer({"m.onnx": pieces}) as server:
        server.state.has_ranges = False
        with (
            pytest.warns(UserWarning, match="complete file was downloaded"),
            ow.load(f"{server.url}/m.onnx") as message,
        ):
            assert message.graph.initializer[0].nbytes == MIB
            assert message.graph.initializer[0].raw_data == payload(pieces, ow.tensors(message)[0])


def test_a_large_file_on_a_server_without_ranges_is_refused() -> None:
    with ObjectServer({"large.onnx": model([300 * MIB])}) as server:
        server.state.has_ranges = False
        with pytest.raises(ow.SourceError, match="range requests"):
            ow.load(f"{server.url}/large.onnx")
        assert server.state.sent < 40 * MIB


def check_payloads(address: str, pieces: Pieces, cache) -> None:
    """Compare each payload of a remote model with the contents of its file."""
    with ow.load(address, cache=cache) as message:
        for tensor, info in zip(message.graph.initializer, ow.tensors(message), strict=True):
            assert tensor.raw_data == payload(pieces, info)


@pytest.mark.normal_build
def test_a_cache_on_the_disk_saves_requests(tmp_path) -> None:
    pieces = model([3 * MIB, 300_000, 9 * MIB, 100_000])
    with ObjectServer({"m.onnx": pieces}) as server:
        address = f"{server.url}/m.onnx"
        check_payloads(address, pieces, tmp_path / "cache")
        server.state.reset()
        check_payloads(address, pieces, tmp_path / "cache")
        # The only request checks whether the file has changed.
        assert len(server.state.requests) == 1
        server.state.etag = '"two"'
        check_payloads(address, pieces, tmp_path / "cache")
        assert server.state.sent > pieces.size
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "cache/onnxwire-ranges").iterdir()} == {0o600}


def test_damaged_pages_of_the_cache_are_fetched_again(tmp_path) -> None:
    pieces = model([9 * MIB, 100_000])
    with ObjectServer({"m.onnx": pieces}) as server:
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)
        (data_path,) = tmp_path.glob("onnxwire-ranges/*.data")
        with open(data_path, "r+b") as file:
            file.seek(5 * MIB)
            file.write(b"damage")
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)
        with open(data_path, "r+b") as file:
            file.truncate(5 * MIB)
        check_payloads(f"{server.url}/m.onnx", pieces, tmp_path)


@pytest.mark.normal_build
def test_the_cache_evicts_the_least_recently_used_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ONNXWIRE_CACHE_SIZE", str(13 * MIB))
    monkeypatch.setenv("ONNXWIRE_CACHE", str(tmp_path))
    files = {name: model([5 * MIB, 100_000 + i]) for i, name in enumerate("abc")}
    with ObjectServer(files) as server:
        for name in "abacb":
            check_payloads(f"{server.url}/{name}", files[name], None)
        server.state.reset()
        check_payloads(f"{server.url}/c", files["c"], None)
        assert len(server.state.requests) == 1
    assert sum(path.stat().st_blocks * 512 for path in (tmp_path / "onnxwire-ranges").iterdir()) < 17 * MIB


def test_several_processes_with_one_cache_read_equal_values(tmp_path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, onnxwire as ow\n"
        "with ow.load(sys.argv[1], cache=sys.argv[2]) as model:\n"
        "    print(sum(int(tensor.numpy().sum()) for tensor in model.graph.initializer))"
    )
    pieces = model([9 * MIB, 300_000, 100_000])
    with ObjectServer({"m.onnx": pieces}) as server:
        command = [sys.executable, "-c", code, f"{server.url}/m.onnx", str(tmp_path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        sums = {process.communicate(timeout=100)[0] for process in processes}
    assert len(sums) == 1 and int(sums.pop()) > 0


@pytest.fixture
def default_interrupt_handler():
    """Handle Ctrl-C as on a terminal: a shell makes background jobs ignore Ctrl-C."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def test_ctrl_c_ends_a_read_at_once(default_interrupt_handler) -> None:
    pieces = model([9 * MIB, 100_000])
    with ObjectServer({"m.onnx": pieces}, stall=20) as server, ow.load(f"{server.url}/m.onnx") as message:
        list(message.graph.initializer)
        server.state.default_fault = "timeout"
        timer = threading.Timer(0.3, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            message.graph.initializer[0].numpy()
        assert server.state.stalled == 0  # no request has ended: the server still waits
        server.state.default_fault = None
        assert message.graph.initializer[0].numpy().size == 9 * MIB


def make_net_sizes(total: int) -> list[int]:
    """Return sizes in bytes of initializers like those of a convolutional net.

    They have many different sizes, in an order without a repeated pattern, and at least `total` bytes together.
    """
    rng = Random(1)
    sizes: list[int] = []
    channels = 32
    while sum(sizes) < total:
        channels = min(channels + 8 * rng.randrange(3), 512)
        pointwise_bytes, reduced_bytes = channels * channels * 2 * rng.choice((1, 1, 2, 3)), channels * 48 * 4
        sizes += [channels * 4, channels * 4, pointwise_bytes, channels * 36, channels * 4, channels * 4, reduced_bytes]
    return sizes


@pytest.mark.parametrize(
    ("total", "max_trips", "max_requests"),
    [(20_000_000, 2, 4), (45_000_000, 14, 40)],
    ids=["small enough to be read completely", "with sizes that are not predicted"],
)
def test_a_net_of_many_sizes_is_read_in_few_requests(total, max_trips, max_requests, trips, monkeypatch) -> None:
    monkeypatch.setattr(remote_file, "_SMALL_FILE_BYTES", 1 << 25)
    pieces = model(make_net_sizes(total), nodes=300)
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        assert len(ow.tensors(message)) == len(make_net_sizes(total))
        assert trips.count <= max_trips
        assert len(server.state.requests) <= max_requests
        assert server.state.sent <= 1.1 * pieces.size


def make_external_model(sizes: list[int]) -> dict[str, Pieces]:
    """Return the files of a model with one external file per initializer. sizes: the sizes of these files in bytes.

    Each byte of the file w{i}.bin is i modulo 256.
    """
    message = ow.ModelProto(ir_version=9, graph=ow.GraphProto(name="g"))
    files = {}
    for i, size in enumerate(sizes):
        tensor = message.graph.initializer.add(
            name=f"w{i}", data_type=ow.TensorProto.UINT8, dims=[size], data_location=ow.TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=f"w{i}.bin")
        files[f"w{i}.bin"] = Pieces(bytes([i % 256]) * size)
    return files | {"m.onnx": Pieces(message.SerializeToString())}


READ_FUNCTIONS = {
    "prefetch": lambda message: ow.prefetch(message.graph.initializer),
    "check": ow.check,
    "measure_all": measure_all,
    "diff": lambda message: list(ow.diff(message, message)),
}


@pytest.mark.parametrize("read", READ_FUNCTIONS.values(), ids=READ_FUNCTIONS)
def test_external_files_are_opened_together(read, trips) -> None:
    with ObjectServer(make_external_model([1000] * 40)) as server, ow.load(f"{server.url}/m.onnx") as message:
        trips.count = 0
        read(message)
        assert trips.count == 1
        assert [tensor.numpy()[0] for tensor in message.graph.initializer] == list(range(40))
        assert len(server.state.requests) == 41


def test_the_remaining_bytes_of_external_files_are_fetched_together(trips) -> None:
    with ObjectServer(make_external_model([100_000] * 20)) as server, ow.load(f"{server.url}/m.onnx") as message:
        trips.count = 0
        ow.prefetch(message.graph.initializer)
        assert trips.count == 2  # the first bytes of all files, then the remaining bytes
        server.state.reset()
        for i, tensor in enumerate(message.graph.initializer):
            assert tensor.raw_view == bytes([i]) * 100_000
        assert not server.state.requests


def test_a_missing_external_file_is_an_error_of_its_tensor_alone() -> None:
    files = make_external_model([1000] * 20)
    del files["w7.bin"]
    with ObjectServer(files) as server, ow.load(f"{server.url}/m.onnx") as message:
        with pytest.raises(ow.SourceError, match=r"w7\.bin"):
            ow.prefetch(message.graph.initializer)
        assert [tensor.numpy()[0] for tensor in message.graph.initializer[8:]] == list(range(8, 20))
        with pytest.raises(ow.SourceError, match=r"tensor 'w7' refers to it"):
            message.graph.initializer[7].numpy()


def test_locations_that_are_not_allowed_are_not_requested() -> None:
    files = make_external_model([1000] * 3)
    message = ow.ModelProto.FromString(files["m.onnx"].read(0, files["m.onnx"].size))
    message.graph.initializer[1].external_data[0].value = "../w1.bin"
    message.graph.initializer[2].external_data[0].value = "w2.bin?x"
    files["m.onnx"] = Pieces(message.SerializeToString())
    with ObjectServer(files) as server, ow.load(f"{server.url}/m.onnx") as message:
        with pytest.raises(ow.ExternalDataError, match=r"parent folder|contains"):
            ow.prefetch(message.graph.initializer)
        assert {request.path for request in server.state.requests} <= {"/m.onnx", "/w0.bin"}
        assert message.graph.initializer[0].numpy()[0] == 0


def test_statistics_with_a_histogram_fetch_a_tensor_once() -> None:
    pieces = model([9 * MIB, 300_000])
    with ObjectServer({"m.onnx": pieces}) as server, ow.load(f"{server.url}/m.onnx") as message:
        tensor = message.graph.initializer[0]
        server.state.reset()
        assert sum(measure(tensor, bins=10).histogram.counts) == 9 * MIB
        assert server.state.sent <= 9 * MIB + (1 << 16)
        server.state.reset()
        assert measure(tensor, slice(MIB, 3 * MIB), bins=10).count == 2 * MIB
        assert len(server.state.requests) <= 2


def test_a_diff_skips_payloads_only_if_the_address_and_the_strong_etag_are_equal() -> None:
    files = {"m.onnx": model([5 * MIB] * 4), "n.onnx": model([5 * MIB] * 4)}
    with ObjectServer(files) as server:
        assert list(ow.diff(f"{server.url}/m.onnx", f"{server.url}/m.onnx")) == []
        assert server.state.sent < 1 << 19
        server.state.reset()
        # An ETag identifies bytes only together with the file.
        assert list(ow.diff(f"{server.url}/m.onnx", f"{server.url}/n.onnx")) == []
        assert server.state.sent > 40 * MIB
        server.state.etag = 'W/"one"'
        server.state.reset()
        assert list(ow.diff(f"{server.url}/m.onnx", f"{server.url}/m.onnx")) == []
        assert server.state.sent > 40 * MIB
