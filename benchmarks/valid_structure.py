"""The input of check_structure: a model of about 20 MB without large payloads that the official checker accepts."""

import random
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once

PATH = FOLDER / "typed_structure.onnx"
NODES = 100_000
LAYERS = 200
OPSET = 17
# The types of inputs of operators whose inputs are not all of one float type.
INPUTS = {"Cast": [None], "Gather": [None, "INT64"], "Reshape": [None, "INT64"]}
FLOATS = ["FLOAT", "FLOAT16"]
# Operators with their possible numbers of inputs, required attributes, and optional attributes.
OPERATORS: dict[str, tuple[list[int], dict[str, list[Any]], dict[str, list[Any]]]] = {
    "Add": ([2], {}, {}),
    "Cast": ([1], {"to": [1, 7, 10]}, {}),
    "Concat": ([2, 2, 3], {"axis": [-1, 0, 1]}, {}),
    "Conv": (
        [2, 3],
        {},
        {"kernel_shape": [[3, 3], [1, 1]], "pads": [[0, 0, 0, 0], [1, 1, 1, 1]], "strides": [[1, 1]], "group": [1, 8]},
    ),
    "Gather": ([2], {}, {"axis": [0, 1, 2]}),
    "Gemm": ([2, 3], {}, {"alpha": [0.5, 1.0], "beta": [1.0], "transB": [0, 1]}),
    "LayerNormalization": ([2, 3], {}, {"axis": [-1], "epsilon": [1e-5, 1e-6]}),
    "MatMul": ([2], {}, {}),
    "Mul": ([2], {}, {}),
    "Reshape": ([2], {}, {"allowzero": [0]}),
    "Softmax": ([1], {}, {"axis": [-1, 1]}),
    "Transpose": ([1], {}, {"perm": [[0, 2, 1, 3], [0, 1, 3, 2]]}),
    "Einsum": ([2], {"equation": ["bhid,bhjd->bhij", "bij,bjk->bik"]}, {}),
}
FOREIGN_DOMAIN = "com.microsoft"  # a domain whose operators are unknown to all checkers


def prepare() -> None:
    """Make the file."""
    make_once(PATH, write)


def write(path: Path) -> None:
    """Write the model with the official package."""
    from onnx import TensorProto, helper

    choose = random.Random(0)
    nodes, values = [], []
    graph_input_types = {"input_ids": "INT64", "attention_mask": "INT64", "hidden": "FLOAT", "half": "FLOAT16"}
    names = {kind: [name for name, dtype in graph_input_types.items() if dtype == kind] for kind in ("INT64", *FLOATS)}
    for index in range(NODES):
        op_type = choose.choice(list(OPERATORS))
        counts, needed, known = OPERATORS[op_type]
        name = f"/layers.{index * LAYERS // NODES}/{op_type}_{index % (NODES // LAYERS)}"
        output = f"{name}_output_0"
        # A node reads outputs of recent nodes, as in a sorted graph.
        shared = choose.choice(FLOATS)
        first = choose.choice(list(names))
        kinds = [kind or first for kind in INPUTS.get(op_type, [shared] * choose.choice(counts))]
        inputs = [choose.choice(names[kind][-50:]) for kind in kinds]
        keys = [*needed, *choose.sample(list(known), choose.randint(0, len(known)))]
        attributes = {key: choose.choice((needed | known)[key]) for key in keys}
        doc_string = f"File model.py, line {index % 900}" if choose.random() < 0.05 else None
        domain = FOREIGN_DOMAIN if choose.random() < 0.1 else None
        nodes.append(helper.make_node(op_type, inputs, [output], name, doc_string, domain, **attributes))
        output_type = TensorProto.DataType.Name(attributes["to"]) if op_type == "Cast" else kinds[0]
        names[output_type].append(output)
        sizes = choose.choices([32, 64, 768, 3072], k=choose.randint(0, 2))
        shape: list[int | str | None] = ["batch", choose.choice(["sequence", 1, 128]), *sizes]
        values.append(helper.make_tensor_value_info(output, TensorProto.DataType.Value(output_type), shape))
    graph_inputs = [
        helper.make_tensor_value_info(name, TensorProto.DataType.Value(kind), ["batch", "sequence"])
        for name, kind in graph_input_types.items()
    ]
    graph = helper.make_graph(nodes, "structure", graph_inputs, [values.pop()], value_info=values)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(FOREIGN_DOMAIN, 1)]
    path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString())
