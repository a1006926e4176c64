"""Payloads of many files are fetched concurrently before they are read, and may be read in any order."""

from __future__ import annotations

import io
import threading

import pytest
from object_server import ObjectServer, Pieces

import onnxwire as ow
from onnxwire.io.prefetch import fetch_in_order, open_external
from onnxwire.io.remote import schedule
from onnxwire.tensor.storage import Storage

TENSOR_BYTES = 100_000


def make_files(folder: str, count: int, change: int = 0) -> dict[str, Pieces]:
    """Return the files of a model of `count` initializers.

    Each initializer has its own external file, in which each byte is the initializer's index plus `change`.
    """
    message = ow.ModelProto(ir_version=9, graph=ow.GraphProto(name="g"))
    files = {}
    for i in range(count):
        tensor = message.graph.initializer.add(
            name=f"w{i}", data_type=ow.TensorProto.UINT8, dims=[TENSOR_BYTES], data_location=ow.TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=f"w{i}.bin")
        files[f"{folder}/w{i}.bin"] = Pieces(bytes([i + change]) * TENSOR_BYTES)
    return files | {f"{folder}/m.onnx": Pieces(message.SerializeToString())}


def save_inline(address: str, path) -> list[int]:
    with ow.load(address) as message:
        ow.save(message, path, external=None)
    return last_elements(path)


def save_external(address: str, path) -> list[int]:
    with ow.load(address) as message:
        ow.save(message, path, external="all.data")
    return last_elements(path)


def save_to_stream(address: str, path) -> list[int]:
    stream = io.BytesIO()
    with ow.load(address) as message:
        ow.save(message, stream, external=None)
    path.write_bytes(stream.getvalue())
    return last_elements(path)


def diff_folders(address: str, path) -> list[int]:
    """Return, for each difference of the models in folders a and b, its index plus its maximum distance minus 1.

    The distance is 1 if the values are right.
    """
    differences = ow.diff(address, address.replace("/a/", "/b/"))
    return [int(difference.distance.max_abs) - 1 + i for i, difference in enumerate(differences)]


def last_elements(path) -> list[int]:
    """Return the last element of each initializer."""
    with ow.load(path) as message:
        return [int(tensor.numpy()[-1]) for tensor in message.graph.initializer]


# Functions that read all payloads of a model. They return range(8) as a list if the values are right.
READ_FUNCTIONS = [save_inline, save_external, save_to_stream, diff_folders]


@pytest.mark.parametrize("read", READ_FUNCTIONS)
def test_payloads_of_many_files_are_requested_together(read, tmp_path) -> None:
    with ObjectServer(make_files("a", 8) | make_files("b", 8, change=1)) as server:

        def set_barrier(state, index) -> None:
            if state.requests[-1].path.endswith(".bin"):
                state.barrier = threading.Barrier(4) if state.barrier is None else state.barrier

        # From the first payload on, requests are answered in groups of four.
        server.state.on_request = set_barrier
        assert read(f"{server.url}/a/m.onnx", tmp_path / "m.onnx") == list(range(8))


@pytest.mark.parametrize("order", [range(12), range(11, -1, -1), [0, 5, 1, 11, 7, 3], [4, 4, 9]], ids=str)
@pytest.mark.parametrize("max_unread_bytes", [1, 3 * TENSOR_BYTES, 1 << 26])
def test_payloads_may_be_read_in_any_order(order, max_unread_bytes, monkeypatch) -> None:
    monkeypatch.setattr(schedule, "_MAX_BYTES", max_unread_bytes)
    with ObjectServer(make_files("a", 12)) as server, ow.load(f"{server.url}/a/m.onnx") as message:
        tensors = list(message.graph.initializer)
        open_external(tensors)
        with fetch_in_order((tensor,) for tensor in tensors):
            for i in order:
                buffer = bytearray(TENSOR_BYTES)
                file, offset = Storage(tensors[i]).file_and_offset
                file.read_into(offset, buffer)
                assert buffer == bytes([i]) * TENSOR_BYTES
        assert file.memory.source.schedule is None


def test_a_missing_payload_is_an_error_of_the_save(tmp_path) -> None:
    files = make_files("a", 12)
    with ObjectServer(files) as server, ow.load(f"{server.url}/a/m.onnx") as message:
        tensors = list(message.graph.initializer)
        open_external(tensors)
        del server.state.files["/a/w7.bin"]
        with pytest.raises(ow.SourceError, match=r"w7\.bin"):
            ow.save(message, tmp_path / "m.onnx", external="all.data")
        assert list(tmp_path.iterdir()) == []
        assert tensors[8].numpy()[0] == 8
        assert Storage(tensors[0]).file_and_offset[0].memory.source.schedule is None


def test_payloads_are_not_fetched_to_be_compared_with_themselves() -> None:
    with ObjectServer(make_files("a", 8)) as server, ow.load(f"{server.url}/a/m.onnx") as message:
        open_external(message)
        server.state.reset()
        assert list(ow.diff(message, message)) == []
        assert server.state.requests == []
