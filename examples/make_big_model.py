"""Write a valid ONNX transformer with all weights inline, by default as a sparse file of more than 4 GiB.

The network is a decoder in the style of Llama. Its weights are either holes in the file, which are read as zeros and
take no disk space, or pseudo-random bytes. By default the network has ten layers, each as large as a layer of a model
with 7 billion parameters, and the weights are holes:

    python make_big_model.py -o big.onnx
    python make_big_model.py --layers 2 --hidden 64 --intermediate 160 --vocab 512 --heads 4 --fill random -o small.onnx
"""

import argparse
import io
import math
import os
import random
import struct
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnxwire

FLOAT = onnxwire.TensorProto.FLOAT
FLOAT16 = onnxwire.TensorProto.FLOAT16
INT64 = onnxwire.TensorProto.INT64
DTYPES = {"float16": FLOAT16, "float32": FLOAT}
STRUCT_CODES = {FLOAT: "f", FLOAT16: "e", INT64: "q"}  # format characters of the module `struct`

CHUNK_BYTES = 1 << 20  # length of the pseudo-random bytes that a weight repeats
ZEROS = bytes(1 << 23)  # as long as the largest block that `save` writes at a time
ROPE_BASE = 10000.0  # base of the frequencies of the rotary position embedding
NORM_EPSILON = 1e-5
LOWEST_FLOAT16 = -65504.0  # added to masked attention scores, also for float32


class SparseFile(io.FileIO):
    """A file in which blocks of zeros are written as holes, which take no disk space."""

    def write(self, data: Any) -> int:
        """Write bytes, or move past them if all are zero."""
        if ZEROS.startswith(data):
            self.seek(len(data), os.SEEK_CUR)
            return len(data)
        return super().write(data)


@cache
def payload(size: int, fill: str) -> bytes:
    """Return the bytes of a weight. All weights of one size share the same object."""
    if fill == "zero":
        return bytes(size)  # takes no memory as long as it is only read
    chunk = random.Random(0).randbytes(CHUNK_BYTES)
    return b"".join([chunk] * (size // CHUNK_BYTES) + [chunk[: size % CHUNK_BYTES]])


def attribute(name: str, value: onnxwire.TensorProto | int | list[int]) -> onnxwire.AttributeProto:
    """Make an attribute whose type follows from the value."""
    result = onnxwire.AttributeProto(name=name)
    if isinstance(value, onnxwire.TensorProto):
        result.t.CopyFrom(value)
        result.type = result.TENSOR
    elif isinstance(value, int):
        result.i = value
        result.type = result.INT
    else:
        result.ints.extend(value)
        result.type = result.INTS
    return result


def tensor(data_type: int, shape: list[int], *values: float) -> onnxwire.TensorProto:
    """Make a small unnamed tensor."""
    raw_data = struct.pack(f"<{len(values)}{STRUCT_CODES[data_type]}", *values)
    return onnxwire.TensorProto(dims=shape, data_type=data_type, raw_data=raw_data)


def value_info(name: str, data_type: int, *shape: int | str) -> onnxwire.ValueInfoProto:
    """Make the name and type of a tensor. A string in the shape is a symbolic dimension."""
    result = onnxwire.ValueInfoProto(name=name)
    result.type.tensor_type.elem_type = data_type
    for size in shape:
        dim = result.type.tensor_type.shape.dim.add()
        if isinstance(size, str):
            dim.dim_param = size
        else:
            dim.dim_value = size
    return result


@dataclass
class Decoder:
    """The graph under construction. Its methods add nodes; they take and return names of tensors.

    hidden, intermediate, heads: the sizes of the hidden state and of the feed-forward network, and the number of
    attention heads. data_type: the type of the weights. fill: "zero" or "random". name_counts: how many nodes have been
    added, by scope and operator.
    """

    hidden: int
    intermediate: int
    heads: int
    data_type: int
    fill: str
    graph: onnxwire.GraphProto = field(default_factory=lambda: onnxwire.GraphProto(name="decoder"))
    name_counts: dict[str, int] = field(default_factory=dict)

    def node(self, scope: str, op_type: str, *inputs: str, outputs: list[str] | None = None, **attributes: Any) -> str:
        """Add a node and return the name of its first output.

        scope: the first part of the node's name. inputs, outputs: names of tensors; by default one output, whose name
        follows from the node's name. attributes: the values of attributes by name.
        """
        name = f"{scope}/{op_type}"
        self.name_counts[name] = self.name_counts.get(name, 0) + 1
        if self.name_counts[name] > 1:
            name += f"_{self.name_counts[name] - 1}"
        outputs = outputs or [f"{name}_output_0"]
        node = self.graph.node.add(name=name, op_type=op_type, input=inputs, output=outputs)
        node.attribute.extend(attribute(key, value) for key, value in attributes.items())
        return outputs[0]

    def constant(self, scope: str, data_type: int, shape: list[int], *values: float) -> str:
        """Add a Constant node."""
        return self.node(scope, "Constant", value=tensor(data_type, shape, *values))

    def weight(self, scope: str, *shape: int) -> str:
        """Add an initializer whose name is made from the scope. Return this name."""
        name = scope.removeprefix("/").replace("/", ".") + ".weight"
        size = math.prod(shape) * struct.calcsize(STRUCT_CODES[self.data_type])
        raw_data = payload(size, self.fill)
        self.graph.initializer.add(name=name, data_type=self.data_type, dims=shape, raw_data=raw_data)
        return name

    def linear(self, scope: str, x: str, rows: int, columns: int) -> str:
        """Multiply by a weight matrix."""
        y = self.node(scope, "MatMul", x, self.weight(scope, rows, columns))
        self.graph.value_info.append(value_info(y, self.data_type, "batch", "sequence", columns))
        return y

    def norm(self, scope: str, x: str) -> str:
        """Divide by the root mean square, computed in float32, and scale."""
        x = self.node(scope, "Cast", x, to=FLOAT)
        square = self.node(scope, "Pow", x, self.constant(scope, FLOAT, [], 2.0))
        mean = self.node(scope, "ReduceMean", square, axes=[-1], keepdims=1)
        shifted = self.node(scope, "Add", mean, self.constant(scope, FLOAT, [], NORM_EPSILON))
        x = self.node(scope, "Div", x, self.node(scope, "Sqrt", shifted))
        x = self.node(scope, "Cast", x, to=self.data_type)
        return self.node(scope, "Mul", self.weight(scope, self.hidden), x)

    def rotary_factors(self, scope: str, length: str) -> tuple[str, str]:
        """Return the cosines and sines of the rotary position embedding, of shape (sequence, head size / 2).

        length: the tensor with the sequence length, of shape (1,).
        """
        half = self.hidden // self.heads // 2
        name = "model.rotary_emb.inv_freq"
        frequencies = [ROPE_BASE ** (-index / half) for index in range(half)]
        # Only this tensor is in a typed field instead of raw_data, so that the file also has a packed field.
        self.graph.initializer.add(name=name, data_type=FLOAT, dims=[half], float_data=frequencies)
        zero, one = self.constant(scope, INT64, [], 0), self.constant(scope, INT64, [], 1)
        positions = self.node(scope, "Range", zero, self.node(scope, "Squeeze", length), one)
        column = self.node(scope, "Unsqueeze", positions, self.constant(scope, INT64, [1], 1))
        angles = self.node(scope, "Mul", self.node(scope, "Cast", column, to=FLOAT), name)
        cosine, sine = self.node(scope, "Cos", angles), self.node(scope, "Sin", angles)
        return self.node(scope, "Cast", cosine, to=self.data_type), self.node(scope, "Cast", sine, to=self.data_type)

    def causal_mask(self, scope: str, length: str) -> str:
        """Return the mask that is added to the attention scores, of shape (sequence, sequence).

        length: the tensor with the sequence length, of shape (1,).
        """
        shape = self.node(scope, "Concat", length, length, axis=0)
        mask = self.node(scope, "ConstantOfShape", shape, value=tensor(FLOAT, [1], LOWEST_FLOAT16))
        mask = self.node(scope, "Trilu", mask, self.constant(scope, INT64, [], 1), upper=1)
        return self.node(scope, "Cast", mask, to=self.data_type)

    def project(self, scope: str, x: str) -> str:
        """Project for attention, from (batch, sequence, hidden) to (batch, heads, sequence, head size)."""
        shape = self.constant(scope, INT64, [4], 0, 0, self.heads, self.hidden // self.heads)
        x = self.node(scope, "Reshape", self.linear(scope, x, self.hidden, self.hidden), shape)
        return self.node(scope, "Transpose", x, perm=[0, 2, 1, 3])

    def rotate(self, scope: str, x: str, cosine: str, sine: str) -> str:
        """Apply the rotary position embedding."""
        left, right = f"{scope}/Split_output_0", f"{scope}/Split_output_1"
        self.node(scope, "Split", x, outputs=[left, right], axis=-1)
        real = self.node(scope, "Sub", self.node(scope, "Mul", left, cosine), self.node(scope, "Mul", right, sine))
        imaginary = self.node(scope, "Add", self.node(scope, "Mul", right, cosine), self.node(scope, "Mul", left, sine))
        return self.node(scope, "Concat", real, imaginary, axis=-1)

    def attention(self, scope: str, x: str, cosine: str, sine: str, mask: str) -> str:
        """Apply attention to each position and the positions before it."""
        query = self.rotate(f"{scope}/q_rotary", self.project(f"{scope}/q_proj", x), cosine, sine)
        key = self.rotate(f"{scope}/k_rotary", self.project(f"{scope}/k_proj", x), cosine, sine)
        value = self.project(f"{scope}/v_proj", x)
        scores = self.node(scope, "MatMul", query, self.node(scope, "Transpose", key, perm=[0, 1, 3, 2]))
        scale = self.constant(scope, self.data_type, [], (self.hidden // self.heads) ** -0.5)
        scores = self.node(scope, "Add", self.node(scope, "Mul", scores, scale), mask)
        x = self.node(scope, "MatMul", self.node(scope, "Softmax", scores, axis=-1), value)
        x = self.node(scope, "Transpose", x, perm=[0, 2, 1, 3])
        x = self.node(scope, "Reshape", x, self.constant(scope, INT64, [3], 0, 0, self.hidden))
        return self.linear(f"{scope}/o_proj", x, self.hidden, self.hidden)

    def feed_forward(self, scope: str, x: str) -> str:
        """Apply the gated feed-forward network."""
        gate = self.linear(f"{scope}/gate_proj", x, self.hidden, self.intermediate)
        up = self.linear(f"{scope}/up_proj", x, self.hidden, self.intermediate)
        gate = self.node(f"{scope}/act_fn", "Mul", gate, self.node(f"{scope}/act_fn", "Sigmoid", gate))
        return self.linear(f"{scope}/down_proj", self.node(scope, "Mul", gate, up), self.intermediate, self.hidden)

    def build(self, layers: int, vocab: int) -> None:
        """Add all nodes, inputs and outputs."""
        embedding = self.weight("/model/embed_tokens", vocab, self.hidden)
        x = self.node("/model/embed_tokens", "Gather", embedding, "input_ids", axis=0)
        length = self.node("/model", "Shape", "input_ids", start=1, end=2)
        cosine, sine = self.rotary_factors("/model/rotary_emb", length)
        mask = self.causal_mask("/model/causal_mask", length)
        for index in range(layers):
            scope = f"/model/layers.{index}"
            normed = self.norm(f"{scope}/input_layernorm", x)
            x = self.node(scope, "Add", x, self.attention(f"{scope}/self_attn", normed, cosine, sine, mask))
            normed = self.norm(f"{scope}/post_attention_layernorm", x)
            x = self.node(scope, "Add", x, self.feed_forward(f"{scope}/mlp", normed))
        x = self.norm("/model/norm", x)
        self.node("/lm_head", "MatMul", x, self.weight("/lm_head", self.hidden, vocab), outputs=["logits"])
        self.graph.input.append(value_info("input_ids", INT64, "batch", "sequence"))
        self.graph.output.append(value_info("logits", self.data_type, "batch", "sequence", vocab))


def write_model(
    path: str | os.PathLike[str],
    *,
    layers: int = 10,
    hidden: int = 4096,
    intermediate: int = 11008,
    vocab: int = 32000,
    heads: int = 32,
    dtype: str = "float16",
    fill: str = "zero",
) -> int:
    """Write the model and return the size of the file in bytes.

    layers, heads: numbers of layers and attention heads. hidden, intermediate, vocab: the sizes of the hidden state,
    the feed-forward network and the vocabulary. dtype: "float16" or "float32". fill: the bytes of the weights: "zero"
    for holes, or "random".
    Raises ValueError if the hidden size is not a multiple of twice the number of heads.
    """
    if hidden % (2 * heads):
        raise ValueError(f"hidden size {hidden} is not a multiple of {2 * heads}, twice the number of heads")
    decoder = Decoder(hidden, intermediate, heads, DTYPES[dtype], fill)
    decoder.build(layers, vocab)
    model = onnxwire.ModelProto(ir_version=8, producer_name="make_big_model", graph=decoder.graph)
    model.opset_import.add(domain="", version=17)
    with SparseFile(path, "w") as file, warnings.catch_warnings():
        # The file is meant to have more than 2 GiB, which other tools can't read.
        warnings.simplefilter("ignore", onnxwire.LargeFileWarning)
        size = onnxwire.save(model, file)
        file.truncate(size)
    return size


def main() -> None:
    """Read the options and write the model."""
    parser = argparse.ArgumentParser(description="Write a valid ONNX transformer with all its weights inline.")
    for name, default in {"layers": 10, "hidden": 4096, "intermediate": 11008, "vocab": 32000, "heads": 32}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--dtype", choices=DTYPES, default="float16", help="type of the weights")
    parser.add_argument("--fill", choices=["zero", "random"], default="zero", help="bytes of the weights")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="file to write")
    options = vars(parser.parse_args())
    path = options.pop("output")
    start = time.perf_counter()
    size = write_model(path, **options)
    print(f"{path}: {size} bytes ({size / 2**30:.2f} GiB) in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
