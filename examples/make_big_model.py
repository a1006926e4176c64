"""Write a valid ONNX transformer of more than 4 GiB in a moment, as a sparse file with every weight inline.

The network is a decoder in the style of Llama. Its weights are either holes in the file, which read as zeros and take
no disk space, or pseudo-random bytes. The default is ten layers of the size used by models of 7 billion parameters:

    python make_big_model.py -o big.onnx
    python make_big_model.py --layers 2 --hidden 64 --intermediate 160 --vocab 512 --heads 4 --fill random -o small.onnx
"""

import argparse
import math
import os
import random
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxwire

FLOAT = onnxwire.TensorProto.FLOAT
FLOAT16 = onnxwire.TensorProto.FLOAT16
INT64 = onnxwire.TensorProto.INT64
DTYPES = {"float16": FLOAT16, "float32": FLOAT}
STRUCT_CODES = {FLOAT: "f", FLOAT16: "e", INT64: "q"}

LENGTH_PREFIXED = 2  # the wire type of strings, bytes, messages and packed fields
CHUNK_SIZE = 1 << 20
ROPE_BASE = 10000.0
NORM_EPSILON = 1e-5
LOWEST_FLOAT16 = -65504.0


class Message(list[bytes | int]):
    """An encoded message in pieces, an integer among them being a hole: a payload of that many bytes, not made yet."""

    @property
    def size(self) -> int:
        """The length of the message in bytes."""
        return sum(piece if isinstance(piece, int) else len(piece) for piece in self)


def varint(value: int) -> bytes:
    """Encode an integer, a negative one as its 64-bit two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_value(descriptor: Any, value: Any) -> tuple[int, Message]:
    """Return the wire type and the content of one value of a field."""
    if descriptor.type == descriptor.TYPE_MESSAGE:
        return LENGTH_PREFIXED, value
    if descriptor.type == descriptor.TYPE_STRING:
        return LENGTH_PREFIXED, Message([value.encode()])
    if descriptor.type == descriptor.TYPE_BYTES:
        return LENGTH_PREFIXED, Message([value])
    if descriptor.type == descriptor.TYPE_FLOAT:
        return 5, Message([struct.pack("<f", value)])
    return 0, Message([varint(value)])


def message(kind: Any, **fields: Any) -> Message:
    """Encode a message of a class of onnxwire; repeated fields take lists, bytes fields take an integer as a hole."""
    descriptors = kind.DESCRIPTOR.fields_by_name
    encoded = Message()
    for name in sorted(fields, key=lambda name: descriptors[name].number):
        descriptor = descriptors[name]
        values = fields[name] if descriptor.is_repeated else [fields[name]]
        contents = [encode_value(descriptor, value) for value in values]
        if descriptor.is_packed and contents:
            contents = [(LENGTH_PREFIXED, Message(piece for _, content in contents for piece in content))]
        for wire_type, content in contents:
            encoded.append(varint(descriptor.number << 3 | wire_type))
            if wire_type == LENGTH_PREFIXED:
                encoded.append(varint(content.size))
            encoded += content
    return encoded


def attribute(name: str, value: Message | int | list[int]) -> Message:
    """Encode an attribute whose type follows from the value."""
    kind = onnxwire.AttributeProto
    if isinstance(value, Message):
        return message(kind, name=name, type=kind.TENSOR, t=value)
    if isinstance(value, int):
        return message(kind, name=name, type=kind.INT, i=value)
    return message(kind, name=name, type=kind.INTS, ints=value)


def tensor(data_type: int, shape: list[int], *values: float) -> Message:
    """Encode a small unnamed tensor."""
    raw = struct.pack(f"<{len(values)}{STRUCT_CODES[data_type]}", *values)
    return message(onnxwire.TensorProto, dims=shape, data_type=data_type, raw_data=raw)


def value_info(name: str, data_type: int, *shape: int | str) -> Message:
    """Encode the name and type of a tensor; a string in the shape is a symbolic dimension."""
    dims = [{"dim_param": dim} if isinstance(dim, str) else {"dim_value": dim} for dim in shape]
    encoded_dims = [message(onnxwire.TensorShapeProto.Dimension, **dim) for dim in dims]
    encoded_shape = message(onnxwire.TensorShapeProto, dim=encoded_dims)
    tensor_type = message(onnxwire.TypeProto.Tensor, elem_type=data_type, shape=encoded_shape)
    return message(onnxwire.ValueInfoProto, name=name, type=message(onnxwire.TypeProto, tensor_type=tensor_type))


@dataclass
class Decoder:
    """The graph under construction; what its methods take and return are names of tensors."""

    hidden: int
    intermediate: int
    heads: int
    data_type: int
    nodes: list[Message] = field(default_factory=list)
    initializers: list[Message] = field(default_factory=list)
    value_infos: list[Message] = field(default_factory=list)
    uses: dict[str, int] = field(default_factory=dict)

    def node(self, scope: str, op_type: str, *inputs: str, outputs: list[str] | None = None, **attributes: Any) -> str:
        """Add a node and return its first output."""
        name = f"{scope}/{op_type}"
        self.uses[name] = self.uses.get(name, 0) + 1
        if self.uses[name] > 1:
            name += f"_{self.uses[name] - 1}"
        outputs = outputs or [f"{name}_output_0"]
        encoded = [attribute(key, value) for key, value in attributes.items()]
        node = message(onnxwire.NodeProto, name=name, op_type=op_type, input=inputs, output=outputs, attribute=encoded)
        self.nodes.append(node)
        return outputs[0]

    def constant(self, scope: str, data_type: int, shape: list[int], *values: float) -> str:
        """Add a Constant node."""
        return self.node(scope, "Constant", value=tensor(data_type, shape, *values))

    def weight(self, scope: str, *shape: int) -> str:
        """Add an initializer called like the scope, its payload a hole."""
        name = scope.removeprefix("/").replace("/", ".") + ".weight"
        size = math.prod(shape) * struct.calcsize(STRUCT_CODES[self.data_type])
        self.initializers.append(
            message(onnxwire.TensorProto, name=name, data_type=self.data_type, dims=shape, raw_data=size)
        )
        return name

    def linear(self, scope: str, x: str, rows: int, columns: int) -> str:
        """Multiply by a weight matrix."""
        y = self.node(scope, "MatMul", x, self.weight(scope, rows, columns))
        self.value_infos.append(value_info(y, self.data_type, "batch", "sequence", columns))
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

    def rotary_angles(self, scope: str, length: str) -> tuple[str, str]:
        """Return the cosines and sines of the rotary position embedding, of shape (sequence, head size / 2)."""
        half = self.hidden // self.heads // 2
        name = "model.rotary_emb.inv_freq"
        frequencies = [ROPE_BASE ** (-index / half) for index in range(half)]
        # The one tensor in a typed field rather than raw bytes, so that the file has a packed field too.
        self.initializers.append(
            message(onnxwire.TensorProto, name=name, data_type=FLOAT, dims=[half], float_data=frequencies)
        )
        zero, one = self.constant(scope, INT64, [], 0), self.constant(scope, INT64, [], 1)
        positions = self.node(scope, "Range", zero, self.node(scope, "Squeeze", length), one)
        column = self.node(scope, "Unsqueeze", positions, self.constant(scope, INT64, [1], 1))
        angles = self.node(scope, "Mul", self.node(scope, "Cast", column, to=FLOAT), name)
        cosine, sine = self.node(scope, "Cos", angles), self.node(scope, "Sin", angles)
        return self.node(scope, "Cast", cosine, to=self.data_type), self.node(scope, "Cast", sine, to=self.data_type)

    def causal_mask(self, scope: str, length: str) -> str:
        """Return what to add to the attention scores, of shape (sequence, sequence)."""
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
        """Attend to earlier positions."""
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

    def graph(self, layers: int, vocab: int) -> Message:
        """Add all nodes and encode the graph."""
        embedding = self.weight("/model/embed_tokens", vocab, self.hidden)
        x = self.node("/model/embed_tokens", "Gather", embedding, "input_ids", axis=0)
        length = self.node("/model", "Shape", "input_ids", start=1, end=2)
        cosine, sine = self.rotary_angles("/model/rotary_emb", length)
        mask = self.causal_mask("/model/causal_mask", length)
        for index in range(layers):
            scope = f"/model/layers.{index}"
            normed = self.norm(f"{scope}/input_layernorm", x)
            x = self.node(scope, "Add", x, self.attention(f"{scope}/self_attn", normed, cosine, sine, mask))
            normed = self.norm(f"{scope}/post_attention_layernorm", x)
            x = self.node(scope, "Add", x, self.feed_forward(f"{scope}/mlp", normed))
        x = self.norm("/model/norm", x)
        self.node("/lm_head", "MatMul", x, self.weight("/lm_head", self.hidden, vocab), outputs=["logits"])
        return message(
            onnxwire.GraphProto,
            name="decoder",
            node=self.nodes,
            initializer=self.initializers,
            input=[value_info("input_ids", INT64, "batch", "sequence")],
            output=[value_info("logits", self.data_type, "batch", "sequence", vocab)],
            value_info=self.value_infos,
        )


def write_message(path: str | os.PathLike[str], encoded: Message, fill: str) -> None:
    """Write a message to a file, its holes skipped or filled with pseudo-random bytes."""
    chunk = random.Random(0).randbytes(CHUNK_SIZE)
    with Path(path).open("wb") as file:
        for piece in encoded:
            if isinstance(piece, bytes):
                file.write(piece)
            elif fill == "zero":
                file.seek(piece, os.SEEK_CUR)
            else:
                for start in range(0, piece, CHUNK_SIZE):
                    file.write(chunk[: piece - start])
        file.truncate(encoded.size)


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
    """Write the model and return the size of the file in bytes."""
    if hidden % (2 * heads):
        raise ValueError(f"hidden size {hidden} is not a multiple of twice the number of heads, {heads}")
    model = message(
        onnxwire.ModelProto,
        ir_version=8,
        producer_name="make_big_model",
        opset_import=[message(onnxwire.OperatorSetIdProto, domain="", version=17)],
        graph=Decoder(hidden, intermediate, heads, DTYPES[dtype]).graph(layers, vocab),
    )
    write_message(path, model, fill)
    return model.size


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
