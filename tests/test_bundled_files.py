"""onnxwire reads each .onnx and .pb file of the onnx package as the official runtime does and writes the same bytes."""

from __future__ import annotations

import functools
import os

import onnx
import wire
from each import each

import onnxwire

ONNX_FOLDER = os.path.dirname(onnx.__file__)
FILES = sorted(
    os.path.relpath(os.path.join(folder, name), ONNX_FOLDER)
    for folder, _, names in os.walk(ONNX_FOLDER)
    for name in names
    if name.endswith((".onnx", ".pb"))
)
EVERY_FILE = each("file", FILES)
# Member of the oneof `value` of TypeProto → the message that stores a value of such a type.
MESSAGE_TYPES = {"tensor_type": "TensorProto", "sequence_type": "SequenceProto", "optional_type": "OptionalProto"}


@functools.cache
def official_model(path):
    """Return the official ModelProto of a file."""
    with open(path, "rb") as file:
        return onnx.ModelProto.FromString(file.read())


def type_of(file):
    """Return the name of the message type of a file. The type of a stored value depends on the model.

    As in onnx's backend tests (onnx/backend/test/runner), it is the type of the model's input or output with the index
    in the file name: DIR/model.onnx has DIR/test_data_set_0/output_0.pb, and NAME.onnx has NAME_output_0.pb.
    """
    if file.endswith(".onnx"):
        return "ModelProto"
    start, direction, index = (
        file.removesuffix(".pb").replace("/input_", "/_input_").replace("/output_", "/_output_").rsplit("_", 2)
    )
    model = f"{os.path.dirname(os.path.dirname(file))}/model.onnx" if start.endswith("/") else f"{start}.onnx"
    graph = official_model(os.path.join(ONNX_FOLDER, model)).graph
    return MESSAGE_TYPES[getattr(graph, direction)[int(index)].type.WhichOneof("value")]


def classes_of(file):
    """Return onnxwire's class and the official class of the message in a file."""
    name = type_of(file)
    return getattr(onnxwire, name), wire.official_class(f"onnx.{name}")


def read(file):
    """Return the bytes of a file of the package."""
    with open(os.path.join(ONNX_FOLDER, file), "rb") as opened_file:
        return opened_file.read()


def test_the_package_contains_more_than_400_models_and_tensors():
    assert len(FILES) > 400
    assert {type_of(file) for file in FILES} >= {"ModelProto", "TensorProto"}


@EVERY_FILE
def test_verify_accepts_the_file(file):
    onnxwire.verify(os.path.join(ONNX_FOLDER, file), classes_of(file)[0])


@EVERY_FILE
def test_every_field_of_the_file_reads_as_the_official_runtime_reads_it(file):
    ours, official = classes_of(file)
    data = read(file)
    message = onnxwire.load(os.path.join(ONNX_FOLDER, file), ours) if data else ours.FromString(data)
    wire.compare(message, official.FromString(data), file)


@EVERY_FILE
def test_reading_and_encoding_a_file_returns_its_bytes(file):
    assert classes_of(file)[0].FromString(read(file)).SerializeToString() == read(file)


@EVERY_FILE
def test_the_official_encoding_of_a_message_decodes_to_an_equal_message(file):
    ours, official = classes_of(file)
    data = read(file)
    expected = official.FromString(data)
    assert official.FromString(expected.SerializeToString()) == expected
    assert ours.FromString(expected.SerializeToString()) == ours.FromString(data)
