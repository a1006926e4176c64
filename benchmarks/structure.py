"""The input file of several benchmarks: a model of about 20 MB without weights."""

import random
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once

PATH = FOLDER / "structure.onnx"
N_NODES = 100_000  # each with one output, which has a value_info or is the graph's output
N_LAYERS = 200
OP_TYPES = ["Add", "Cast", "Concat", "Conv", "Gather", "Gemm", "MatMul", "Mul", "Reshape", "Softmax", "Transpose"]
# Domains and values of attributes are chosen at random from these lists.
DOMAINS = [""] * 17 + ["com.microsoft"] * 2 + ["ai.onnx.contrib"]
ATTRIBUTES: dict[str, list[Any]] = {
    "axis": [-1, 0, 1, 2],
    "to": [1, 7, 10],  # FLOAT, INT64, FLOAT16
    "perm": [[0, 2, 1, 3], [0, 1, 3, 2]],
    "pads": [[0, 0, 0, 0], [1, 1, 1, 1]],
    "kernel_shape": [[3, 3], [1, 1]],
    "alpha": [0.5, 1.0, 0.01],
    "epsilon": [1e-5, 1e-6],
    "mode": ["constant", "nearest"],
    "equation": ["bhid,bhjd->bhij", "bij,bjk->bik"],
}


def prepare() -> None:
    """Make the file."""
    make_once(PATH, write)


def write(path: Path) -> None:
    """Write the model with the official package."""
    from onnx import TensorProto, helper

    rng = random.Random(0)
    nodes, values, names = [], [], ["input_ids", "attention_mask"]
    for index in range(N_NODES):
        op_type = rng.choice(OP_TYPES)
        name = f"/layers.{index * N_LAYERS // N_NODES}/{op_type}_{index % (N_NODES // N_LAYERS)}"
        output = f"{name}_output_0"
        # A node reads outputs of recent nodes, as in a sorted graph.
        inputs = rng.choices(names[-50:], k=rng.choice([1, 2, 2, 2, 3]))
        keys = rng.sample(list(ATTRIBUTES), rng.choice([0, 0, 1, 1, 2, 3]))
        attributes = {key: rng.choice(ATTRIBUTES[key]) for key in keys}
        doc_string = f"File model.py, line {index % 900}" if rng.random() < 0.05 else None
        domain = rng.choice(DOMAINS) or None
        nodes.append(helper.make_node(op_type, inputs, [output], name, doc_string, domain, **attributes))
        names.append(output)
        sizes = rng.choices([32, 64, 768, 3072], k=rng.randint(0, 2))
        shape: list[int | str | None] = ["batch", rng.choice(["sequence", 1, 128]), *sizes]
        data_type = rng.choice([TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64])
        values.append(helper.make_tensor_value_info(output, data_type, shape))
    graph_inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in names[:2]]
    graph = helper.make_graph(nodes, "structure", graph_inputs, [values.pop()], value_info=values)
    path.write_bytes(helper.make_model(graph).SerializeToString())
