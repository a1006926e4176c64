"""Run functions of the official package on models of 1 GiB and 5 GiB, and convert a model to onnx-ir."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import list_initializers, valid_structure, weights
from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

LARGE_MODEL = FOLDER / "decoder_5gib.onnx"
OPSET = 21
MEMORY_GOAL = 200e6  # bytes


def prepare_large_model() -> None:
    """Make a model of 5 GiB from the model of 1 GiB by adding one weight, which is a hole in the file."""
    list_initializers.prepare()

    def write(path: Path) -> None:
        data = list_initializers.PATH.read_bytes()
        # The second record of the graph (tag 0x3a) has one initializer (tag 0x2a): dims [1 << 30], data_type FLOAT, the
        # name "hole", and raw_data, of which only the length is written. Readers merge both records.
        size = 4 << 30
        tensor_start = b"\x08" + encode_varint(size // 4) + b"\x10\x01\x42\x04hole\x4a" + encode_varint(size)
        graph_start = b"\x2a" + encode_varint(len(tensor_start) + size) + tensor_start
        with open(path, "wb") as file:
            file.write(data + b"\x3a" + encode_varint(len(graph_start) + size) + graph_start)
            file.truncate(file.tell() + size)

    make_once(LARGE_MODEL, write)


def encode_varint(value: int) -> bytes:
    """Encode a number as protobuf does."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def prepare_onnx_ir() -> None:
    """Make the model of 100,000 nodes. Skip the row if onnx-ir is not installed."""
    weights.require("onnx_ir")
    valid_structure.prepare()


def summary(model: Any) -> list[Any]:
    """Return the versions of a model's operator sets, and the numbers of its nodes and value_infos."""
    graph = model.graph
    return [[opset.version for opset in model.opset_import], len(graph.node), len(graph.value_info)]


def ours_of(name: str, path: Path, *arguments: object) -> Callable[[], Callable[[], object]]:
    """Return a side of a row (`Row`). Its operation loads a file and calls the function `name` of onnxwire.

    The function gets the model and the arguments.
    """

    def side() -> Callable[[], object]:
        import onnx.shape_inference
        import onnx.version_converter  # noqa: F401

        import onnxwire

        function = getattr(onnxwire, name)
        return lambda: function(onnxwire.load(path), *arguments)

    return side


def official_of(name: str, *arguments: object) -> Callable[[], Callable[[], object]]:
    """Return a side of a row (`Row`). Its operation loads the model of 1 GiB and calls the function `name` of onnx.

    The function gets the model and the arguments.
    """

    def side() -> Callable[[], object]:
        import onnx
        from onnx import shape_inference, version_converter

        function = getattr(shape_inference if name == "infer_shapes" else version_converter, name)
        return lambda: function(onnx.load(list_initializers.PATH), *arguments)

    return side


def ours_to_ir() -> Callable[[], object]:
    """Return an operation that loads the model of 100,000 nodes and converts it to onnx-ir."""
    import onnxwire
    from onnxwire.bridges.onnx_ir import to_ir

    return lambda: to_ir(onnxwire.load(valid_structure.PATH))


def onnx_ir_load() -> Callable[[], object]:
    """Return an operation that loads the model of 100,000 nodes with onnx-ir."""
    import onnx_ir

    return lambda: onnx_ir.load(valid_structure.PATH)


ROWS = [
    Row(
        "infer the shapes of a 1 GiB file",
        prepare=list_initializers.prepare,
        inputs=(list_initializers.PATH,),
        ours=ours_of("infer_shapes", list_initializers.PATH),
        official=official_of("infer_shapes"),
        fingerprint=summary,
        goal=20,
        memory_goal=MEMORY_GOAL,
        repeats=5,
    ),
    Row(
        f"convert a 1 GiB file to opset {OPSET}",
        prepare=list_initializers.prepare,
        inputs=(list_initializers.PATH,),
        ours=ours_of("convert_version", list_initializers.PATH, OPSET),
        official=official_of("convert_version", OPSET),
        fingerprint=summary,
        goal=20,
        memory_goal=MEMORY_GOAL,
        repeats=5,
    ),
    Row(
        "infer the shapes of a 5 GiB file",
        prepare=prepare_large_model,
        ours=ours_of("infer_shapes", LARGE_MODEL),
        official=None,
        note="can't: over 2 GiB",
        memory_goal=MEMORY_GOAL,
        repeats=5,
    ),
    Row(
        f"convert a 5 GiB file to opset {OPSET}",
        prepare=prepare_large_model,
        ours=ours_of("convert_version", LARGE_MODEL, OPSET),
        official=None,
        note="can't: over 2 GiB",
        memory_goal=MEMORY_GOAL,
        repeats=5,
    ),
    Row(
        "100,000 nodes and value_infos to onnx-ir, compared with onnx-ir's load",
        prepare=prepare_onnx_ir,
        ours=ours_to_ir,
        official=onnx_ir_load,
        other_program="onnx-ir",
        fingerprint=lambda model: len(model.graph),
        goal=1,
        repeats=5,
    ),
]
