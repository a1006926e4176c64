"""An input of check_structure and official_tools: a model of about 20 MB that the official checker accepts."""

import random
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once

PATH = FOLDER / "typed_structure.onnx"
N_NODES = 100_000
N_LAYERS = 200
OPSET = 17
# The types of inputs, for operators whose inputs are not all of one float type; None for any type.
INPUT_TYPES = {"Cast": [None], "Gather": [None, "INT64"], "Reshape": [None, "INT64"]}
FLOAT_TYPES = ["FLOAT", "FLOAT16"]
# Operators with their possible numbers of inputs, and the possible values of required and optional attributes.
OPERATORS: dict[str, tuple[list[int], dict[str, list[Any]], dict[str, list[Any]]]] = {
    "Add": ([2], {}, {}),
    "Cast": ([1], {"to": [1, 7, 10]}, {}),  # to FLOAT, INT64 or FLOAT16
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
FOREIGN_DOMAIN = "com.microsoft"  # neither onnxwire nor onnx knows this domain's operators by default


def prepare() -> None:
    """Make the file."""
    make_once(PATH, write)


def write(path: Path) -> None:
    """Write the model with the official package."""
    from onnx import TensorProto, helper

    rng = random.Random(0)
    nodes, values = [], []
    graph_input_types = {"input_ids": "INT64", "attention_mask": "INT64", "hidden": "FLOAT", "half": "FLOAT16"}
    names_by_type = {
        input_type: [name for name, dtype in graph_input_types.items() if dtype == input_type]
        for input_type in ("INT64", *FLOAT_TYPES)
    }
    for index in range(N_NODES):
        op_type = rng.choice(list(OPERATORS))
        input_counts, required_attributes, optional_attributes = OPERATORS[op_type]
        name = f"/layers.{index * N_LAYERS // N_NODES}/{op_type}_{index % (N_NODES // N_LAYERS)}"
        output = f"{name}_output_0"
        # A node reads outputs of recent nodes, as in a sorted graph.
        shared_type = rng.choice(FLOAT_TYPES)
        first_type = rng.choice(list(names_by_type))
        input_types = [
            input_type or first_type
            for input_type in INPUT_TYPES.get(op_type, [shared_type] * rng.choice(input_counts))
        ]
        inputs = [rng.choice(names_by_type[input_type][-50:]) for input_type in input_types]
        keys = [*required_attributes, *rng.sample(list(optional_attributes), rng.randint(0, len(optional_attributes)))]
        attributes = {key: rng.choice((required_attributes | optional_attributes)[key]) for key in keys}
        doc_string = f"File model.py, line {index % 900}" if rng.random() < 0.05 else None
        domain = FOREIGN_DOMAIN if rng.random() < 0.1 else None
        nodes.append(helper.make_node(op_type, inputs, [output], name, doc_string, domain, **attributes))
        output_type = TensorProto.DataType.Name(attributes["to"]) if op_type == "Cast" else input_types[0]
        names_by_type[output_type].append(output)
        sizes = rng.choices([32, 64, 768, 3072], k=rng.randint(0, 2))
        shape: list[int | str | None] = ["batch", rng.choice(["sequence", 1, 128]), *sizes]
        values.append(helper.make_tensor_value_info(output, TensorProto.DataType.Value(output_type), shape))
    graph_inputs = [
        helper.make_tensor_value_info(name, TensorProto.DataType.Value(input_type), ["batch", "sequence"])
        for name, input_type in graph_input_types.items()
    ]
    graph = helper.make_graph(nodes, "structure", graph_inputs, [values.pop()], value_info=values)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(FOREIGN_DOMAIN, 1)]
    path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString())
