"""Read a model of 1 GiB from a loopback server that delays each response by 30 ms."""

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks import list_initializers, weights
from benchmarks.row import Row

PATH = list_initializers.PATH
CHUNK_BYTES = 1 << 23  # maximum size of a chunk of the download, and of a range that `get_ranges` requests


class Handler(BaseHTTPRequestHandler):
    """A handler that responds to requests for the file or its ranges after 30 ms."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send a range, or the complete file."""
        import time

        time.sleep(0.03)
        size = PATH.stat().st_size
        range_header = self.headers.get("Range")
        start, end = 0, size
        if range_header:
            start_text, _, end_text = range_header.removeprefix("bytes=").partition("-")
            start, end = int(start_text), min(int(end_text) + 1 if end_text else size, size)
        self.send_response(206 if range_header else 200)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(end - start))
        if range_header:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        self.wfile.flush()
        with PATH.open("rb") as file:
            while start < end:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

    def log_message(self, *args: object) -> None:
        """Override the method of the base class: requests are not logged."""


def serve() -> None:
    """Print the port, then respond to requests until the process ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def start_server() -> str:
    """Start a server in a separate process, which ends with this process. Return the server's address."""
    code = "from benchmarks.remote import serve; serve()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    assert process.stdout is not None
    return f"http://127.0.0.1:{process.stdout.readline().strip()}"


def prepare() -> None:
    """Make the file. Skip the rows if obstore is not installed."""
    weights.require("obstore")
    list_initializers.prepare()


def names_types_and_dims(model: Any) -> list[tuple[str, int, tuple[int, ...]]]:
    """Return the name, data type and dims of every initializer."""
    return [(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in model.graph.initializer]


def ours() -> Callable[[], object]:
    """Start a server. Return an operation that lists the initializers of the remote model."""
    import onnxwire

    address = f"{start_server()}/{PATH.name}"

    def operation() -> object:
        with onnxwire.load(address) as model:
            return names_types_and_dims(model)

    return operation


def official() -> Callable[[], object]:
    """Start a server. Return an operation that downloads the model and lists its initializers."""
    import shutil
    import urllib.request

    import onnx

    address = f"{start_server()}/{PATH.name}"

    def operation() -> object:
        with tempfile.TemporaryDirectory(dir=PATH.parent) as folder:
            copy = Path(folder) / PATH.name
            with urllib.request.urlopen(address) as response, copy.open("wb") as file:
                shutil.copyfileobj(response, file, CHUNK_BYTES)
            return names_types_and_dims(onnx.load(str(copy)))

    return operation


def fetch_all() -> Callable[[], object]:
    """Start a server and list the weights in raw_data. Return an operation that fetches them into arrays."""
    import onnxwire

    model = onnxwire.load(f"{start_server()}/{PATH.name}")
    tensors = [tensor for tensor in model.graph.initializer if tensor.HasField("raw_data")]

    def operation() -> object:
        onnxwire.prefetch(tensors)
        return sum(tensor.numpy().nbytes for tensor in tensors)

    return operation


def get_ranges() -> Callable[[], object]:
    """Start a server and list the weights in raw_data. Return an operation that requests their bytes with obstore."""
    from obstore.store import HTTPStore

    import onnxwire

    address = start_server()
    store = HTTPStore.from_url(address, client_options={"allow_http": True})
    with onnxwire.load(f"{address}/{PATH.name}") as model:
        tensor_infos = [info for info in onnxwire.tensors(model) if info.path.startswith("graph.initializer")]
        spans = [(info.offset, info.nbytes) for info in tensor_infos if info.offset is not None]
    starts = [start for offset, size in spans for start in range(offset, offset + size, CHUNK_BYTES)]
    ends = [
        min(start + CHUNK_BYTES, offset + size)
        for offset, size in spans
        for start in range(offset, offset + size, CHUNK_BYTES)
    ]

    def operation() -> object:
        return sum(len(data) for data in store.get_ranges(PATH.name, starts=starts, ends=ends, coalesce=0))

    return operation


ROWS = [
    Row(
        "list the 103 initializers of a 1 GiB file on a server, 30 ms per round trip (official: after downloading it)",
        prepare=prepare,
        inputs=(PATH,),
        ours=ours,
        official=official,
        fingerprint=lambda result: result,
        memory_goal=2e7,
        repeats=3,
    ),
    Row(
        "fetch all weights of this file into arrays, compared with obstore's get_ranges of the same bytes",
        prepare=prepare,
        inputs=(PATH,),
        ours=fetch_all,
        official=get_ranges,
        fingerprint=lambda result: result,
        goal=0.8,
        repeats=3,
        other_program="get_ranges",
    ),
]
