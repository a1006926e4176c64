"""A program written for `onnx`. Its output does not depend on the implementation of the messages.

Usage: python program.py FOLDER. The program writes files into the folder.
"""

import copy
import hashlib
import os
import pickle
import sys

import numpy as np
import onnx
from onnx import (
    checker,
    compose,
    helper,
    inliner,
    model_container,
    numpy_helper,
    parser,
    printer,
    shape_inference,
    utils,
    version_converter,
)
from onnx.reference import ReferenceEvaluator


def show(title, value):
    """Print a value, or the digest of the bytes of a message."""
    if hasattr(value, "SerializeToString"):
        value = hashlib.sha256(value.SerializeToString(deterministic=True)).hexdigest()
    print(f"{title}: {value}")


def digest_of(name):
    """Return the digest of a file."""
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def class_of_failure(call, *arguments):
    """Return a list with the name of the first of `error_classes` by which a program could catch the error of a call.

    The list is empty if there is no error, or an error of another class.
    """
    try:
        call(*arguments)
    except Exception as error:
        error_classes = (
            onnx.serialization.google.protobuf.message.DecodeError,
            ValueError,
            TypeError,
            AttributeError,
            IndexError,
        )
        return [cls.__name__ for cls in error_classes if isinstance(error, cls)][:1]
    return []


def make_model():
    """Return a model with weights, a subgraph, a function, strings, and numbers of several types."""
    weights = np.arange(6000, dtype=np.float32).reshape(60, 100)
    float_type = onnx.TensorProto.FLOAT
    branch = helper.make_graph(
        [helper.make_node("Identity", ["y"], ["z"])],
        "then",
        [],
        [helper.make_tensor_value_info("z", float_type, ["N", 100])],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], name="first"),
        helper.make_node("If", ["c"], ["o"], then_branch=branch, else_branch=branch),
        helper.make_node("own", ["o"], ["out"], domain="mine", alpha=0.1, beta=[1.5, 2.5], name="last", s="téxt"),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", float_type, ["N", 60]),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("out", float_type, [None, 100])],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.array(["a", "é"], object), "strings"),
            helper.make_tensor("halves", onnx.TensorProto.FLOAT16, [2], [1.5, -2.0]),
            helper.make_tensor("nibbles", onnx.TensorProto.INT4, [3], [1, -2, 3]),
            helper.make_tensor("bytes", onnx.TensorProto.INT8, [4], [1, -2, 3, 4]),
        ],
    )
    function = helper.make_function(
        "mine", "own", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)], ["alpha"]
    )
    model = helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)],
        producer_name="program",
        ir_version=8,
    )
    helper.set_model_props(model, {"key": "value"})
    return model


def main(folder):
    """Run the program with a folder as the working directory."""
    os.chdir(folder)
    model = make_model()
    show("made", model)
    checker.check_model(model)
    show("str", hashlib.sha256(str(model).encode()).hexdigest())
    show("reprs", [repr(model), repr(model.graph), repr(model.functions[0]), repr(model.graph.node[2])])
    show("lists", [model.opset_import, model.graph.node[0].input, model.graph.initializer[2].dims])
    show("printed", hashlib.sha256(printer.to_text(model).encode()).hexdigest())
    show(
        "parsed",
        parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu(x) }'),
    )
    inferred = shape_inference.infer_shapes(model)
    show("inferred", inferred)
    show("converted", version_converter.convert_version(model, 21))
    show("inlined", inliner.inline_local_functions(model))
    show("prefixed", compose.add_prefix(model, "p_"))
    show("merged", compose.merge_models(model, compose.add_prefix(model, "p_"), [("out", "p_x")]))
    show("extracted", utils.Extractor(inferred).extract_model(["x"], ["y"]))
    x = np.ones((2, 60), np.float32)
    results = ReferenceEvaluator(model).run(None, {"x": x, "c": np.array(True)})
    show("ran", [float(results[0].sum()), results[0].shape, results[0].dtype])
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        show(tensor.name, [array.dtype, array.shape, array.reshape(-1)[:4].tolist(), array.flags.writeable])

    for name in ("model.onnx", "model.txtpb", "model.json"):
        onnx.save(model, name)
        show(name, digest_of(name))
        show(name, onnx.load(name))
    onnx.save(onnx.load("model.onnx"), "model.onnx")
    show("saved over", digest_of("model.onnx"))
    with open("model.onnx", "rb") as file:
        show("of a file", onnx.load(file))
    external_model = copy.deepcopy(model)
    onnx.save(external_model, "external.onnx", save_as_external_data=True, location="external.data", size_threshold=64)
    show("external", [external_model.graph.initializer[0].external_data, os.path.getsize("external.data")])
    show("external", onnx.load("external.onnx", load_external_data=False))
    loaded_model = onnx.load("external.onnx")
    show("external", loaded_model)
    show("external", digest_of("external.data"))
    os.remove("external.data")
    onnx.save(loaded_model, "external.onnx", save_as_external_data=True, location="external.data", size_threshold=64)
    show("again", [os.path.getsize("external.data"), onnx.load("external.onnx") == model])
    container = model_container.make_large_model(model.graph, {}, opset_imports=model.opset_import, ir_version=8)
    container.save("./container.onnx", True)
    show("container", onnx.load("./container.onnx"))

    node = model.graph.node[0]
    show("same", [model.graph.node[0] is node, node in list(model.graph.node), id(model.graph.node[0]) == id(node)])
    model.graph.node[0].name = "renamed"
    model.graph.node.insert(0, model.graph.node[2])
    show("moved", [node.name, model.graph.node[1] is node, model.graph.node[0] is model.graph.node[3]])
    names = []
    for loop_node in model.graph.node:
        names.append(loop_node.name)
        if loop_node.name == "last" and len(model.graph.node) == 4:
            model.graph.node.remove(loop_node)
    show("removed while iterating", names)
    attribute = onnx.AttributeProto(name="a")
    absent_tensor = attribute.t
    attribute.t.CopyFrom(attribute.t)
    show("copied to itself", [attribute.HasField("t"), absent_tensor is attribute.t])
    other_attribute = onnx.AttributeProto()
    other_attribute.t.name = "t"
    attribute.MergeFrom(other_attribute)
    show("merged", [absent_tensor is attribute.t, absent_tensor.name, "t" in attribute, "g" in attribute])
    show("bytes of numbers", bytes(helper.make_tensor("t", onnx.TensorProto.UINT8, [3], [1, 2, 255]).int32_data))
    show("pickled", pickle.loads(pickle.dumps(model)))
    show("class", [type(model).__module__, type(model).__qualname__, type(model.graph.initializer[0]).__module__])
    show("arrays", [hasattr(model.graph.initializer[0], name) for name in ("shape", "dtype", "nbytes", "__array__")])
    show("as an array", np.asarray(model.graph.initializer[:2]).dtype)
    # The encodings that the first three calls parse end inside a varint: in a node, in the graph, and in the model.
    show("failures", [
        class_of_failure(onnx.ModelProto.FromString, b"\x3a\x04\x0a\x02\xff\xff"),
        class_of_failure(model.ParseFromString, b"\x3a\x02\xff\xff"),
        class_of_failure(onnx.load_model_from_string, b"\xff"),
        class_of_failure(setattr, node, "no_field", 1),
        class_of_failure(setattr, node, "name", 1),
        class_of_failure(node.HasField, "input"),
        class_of_failure(node.attribute.append, model),
        class_of_failure(lambda: node.input[9]),
        class_of_failure(helper.make_attribute, "a", object()),
    ])  # fmt: skip
    descriptor = model.DESCRIPTOR
    field = descriptor.fields_by_name["producer_name"]
    show("descriptors", [
        descriptor.full_name, descriptor.file.name, descriptor.file.package, descriptor.has_options,
        descriptor.is_extendable, list(descriptor.extensions), descriptor.GetOptions().map_entry,
        sorted(descriptor.fields_by_camelcase_name), field.json_name, field.camelcase_name, field.extension_scope,
        field.file.name, field.has_options, field.is_extension, field.has_presence, field.default_value,
        onnx.TensorProto.DESCRIPTOR.fields_by_name["float_data"].GetOptions().packed,
        onnx.TensorProto.DataType.DESCRIPTOR.containing_type.name, onnx.TensorProto.DataType.DESCRIPTOR.file.name,
        onnx.TensorProto.DataType.DESCRIPTOR.values_by_name["INT8"].index, onnx.onnx_ml_pb2._TENSORPROTO_DATATYPE.name,
        sorted(onnx.onnx_ml_pb2.DESCRIPTOR.message_types_by_name),
        sorted(onnx.onnx_data_pb2.DESCRIPTOR.message_types_by_name),
        sorted(name for name in vars(onnx.onnx_ml_pb2) if not name.startswith("_") or name.isupper()),
    ])  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
