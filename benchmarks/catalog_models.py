"""Build a catalog of 2,000 models with two processes, compared with a loop of onnx.load that lists fewer columns."""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.arrow_tables import list_values
from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row, Skip

MODELS_FOLDER = FOLDER / "models"
N_MODELS = 2000
N_LARGE_MODELS = 200  # number of models with a weight of 1 MiB to 1 GiB, which is a hole in the file


def prepare() -> None:
    """Make the models: copies of models in the onnx package, and sparse files.

    Skip the row if xxhash is not installed.
    """
    try:
        import xxhash  # noqa: F401
    except ImportError:
        raise Skip("xxhash is not installed") from None
    make_once(MODELS_FOLDER, write)


def write(folder: Path) -> None:
    """Write the models to a folder."""
    import onnx
    from onnx import TensorProto, helper

    rng = random.Random(0)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    package_models = sorted(Path(onnx.__file__).parent.rglob("*.onnx"))
    for number in range(N_MODELS - N_LARGE_MODELS):
        shutil.copy(package_models[number % len(package_models)], folder / f"{number:04}.onnx")
    for number in range(N_MODELS - N_LARGE_MODELS, N_MODELS):
        size = int(2 ** rng.uniform(20, 30))
        nodes = [helper.make_node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"], f"n{i}") for i in range(100)]
        inputs_and_outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("v0", "v100")
        ]
        graph = helper.make_graph(nodes, "big", inputs_and_outputs[:1], inputs_and_outputs[1:])
        encoded_model = helper.make_model(graph).SerializeToString()
        with open(folder / f"{number:04}.onnx", "wb") as file:
            # The model has two records of its field graph (tag 0x3a), which readers merge: one with the nodes, and one
            # with an initializer (tag 0x2a). The tensor has dims [size], data_type UINT8, the name w and raw_data. The
            # value of raw_data is the hole.
            tensor_start = b"\x08" + _encode_varint(size) + b"\x10\x02\x42\x01w\x4a" + _encode_varint(size)
            graph_start = b"\x2a" + _encode_varint(len(tensor_start) + size) + tensor_start
            file.write(encoded_model + b"\x3a" + _encode_varint(len(graph_start) + size) + graph_start)
            file.truncate(file.tell() + size)


def _encode_varint(value: int) -> bytes:
    """Encode a number as protobuf does."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded + bytes([value]))


def ours() -> Callable[[], object]:
    """Return an operation that builds a catalog in a temporary folder."""
    import tempfile

    from onnxwire import catalog

    def build_catalog() -> object:
        with tempfile.TemporaryDirectory() as folder:
            return catalog.build([MODELS_FOLDER], folder, workers=2)

    return build_catalog


def official() -> Callable[[], object]:
    """Return an operation that loads all models and collects some columns of a catalog in lists."""
    import onnx

    def collect_columns() -> object:
        tables: dict[str, list[Any]] = {name: [] for name in ("models", "operators", "tensors", "values", "metadata")}
        for path in sorted(MODELS_FOLDER.glob("*.onnx")):
            model = onnx.load(path, load_external_data=False)
            tables["models"].append((path, model.ir_version, model.producer_name, model.graph.name))
            counts = Counter((node.domain, node.op_type) for node in model.graph.node)
            tables["operators"] += [(path, *key, n) for key, n in counts.items()]
            tables["tensors"] += [
                (path, tensor.name, tensor.data_type, list(tensor.dims), len(tensor.raw_data))
                for tensor in model.graph.initializer
            ]
            tables["values"] += [(path, *row) for row in list_values(model)]
            tables["metadata"] += [(path, entry.key, entry.value) for entry in model.metadata_props]
        return tables

    return collect_columns


def count_models(result: Any) -> int:
    """Return the number of models in the catalog of onnxwire or in the lists of the official side."""
    return len(result["models"]) if isinstance(result, dict) else result.rows["models"]


ROWS = [
    Row(
        "catalog of 2,000 models, 200 of them of 1 MiB to 1 GiB, by 2 processes",
        prepare=prepare,
        ours=ours,
        official=official,
        fingerprint=count_models,
        goal=20,
        repeats=1,
    ),
]
