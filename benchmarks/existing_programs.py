"""Run programs written for `onnx` on a model of 20,000 nodes, with onnxwire in place of protobuf and with protobuf."""

import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from benchmarks.row import Row, Skip

N_NODES = 20_000


def import_onnx(uses_onnxwire: bool) -> Any:
    """Import `onnx` with the message classes of onnxwire or protobuf. Each side is a separate process."""
    if uses_onnxwire:
        from onnxwire.dropin import install

        install()
    import onnx

    return onnx


def build(onnx: Any) -> Any:
    """Make a chain of nodes with weights and attributes by `onnx.helper`, as exporters do."""
    helper = onnx.helper
    nodes, weights = [], []
    for index in range(N_NODES // 2):
        weights.append(helper.make_tensor(f"w{index}", onnx.TensorProto.FLOAT, [2], [0.5, index]))
        nodes.append(helper.make_node("Mul", [f"x{index}", f"w{index}"], [f"y{index}"], name=f"mul{index}"))
        nodes.append(helper.make_node("LeakyRelu", [f"y{index}"], [f"x{index + 1}"], name=f"relu{index}", alpha=0.1))
    make_value = helper.make_tensor_value_info
    inputs = [make_value("x0", onnx.TensorProto.FLOAT, [2])]
    outputs = [make_value(f"x{N_NODES // 2}", onnx.TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def digest(result: Any) -> str:
    """Return a digest of a text or of a message's bytes."""
    data = result.encode() if isinstance(result, str) else result.SerializeToString(deterministic=True)
    return hashlib.blake2b(data).hexdigest()


def building_operation(uses_onnxwire: bool) -> Callable[[], object]:
    """Return an operation that builds the model with `onnx.helper`."""
    onnx = import_onnx(uses_onnxwire)
    return lambda: build(onnx)


def operation_on_model(uses_onnxwire: bool, function: Callable[[Any, Any], object]) -> Callable[[], object]:
    """Return an operation that parses the bytes of the model and calls a function with `onnx` and the model."""
    onnx = import_onnx(uses_onnxwire)
    data = build(onnx).SerializeToString()
    return lambda: function(onnx, onnx.load_model_from_string(data))


def merge(onnx: Any, model: Any) -> object:
    """Merge two copies of the model with `onnx.compose`: the second reads the output of the first."""
    second_model = onnx.compose.add_prefix(model, "second/")
    return onnx.compose.merge_models(model, second_model, [(model.graph.output[0].name, "second/x0")])


def convert_to_onnx_ir_and_back(onnx: Any, model: Any) -> object:
    """Convert the model to onnx-ir and back."""
    import onnx_ir

    return onnx_ir.serde.serialize_model(onnx_ir.serde.deserialize_model(model))


def convert_to_graphsurgeon_and_back(onnx: Any, model: Any) -> object:
    """Convert the model to a graph of graphsurgeon, clean up the graph, and convert it back."""
    import onnx_graphsurgeon

    graph = onnx_graphsurgeon.import_onnx(model)
    return onnx_graphsurgeon.export_onnx(graph.cleanup().toposort())


def require_package(package: str) -> Callable[[], None]:
    """Return a function for `Row.prepare` that skips the row if a package is not installed."""

    def prepare() -> None:
        if find_spec(package) is None:
            raise Skip(f"{package} is not installed")

    return prepare


def make_row(work: str, function: Callable[[Any, Any], object], package: str = "onnx") -> Row:
    """Return a row for a function that is called with `onnx` and the model.

    package: a package that the function imports.
    """
    return Row(
        work,
        ours=lambda: operation_on_model(True, function),
        official=lambda: operation_on_model(False, function),
        prepare=require_package(package),
        fingerprint=digest,
        goal=1,
    )


ROWS = [
    Row(
        "`onnx.helper`: make 20,000 nodes, under `onnxwire.dropin`",
        ours=lambda: building_operation(True),
        official=lambda: building_operation(False),
        fingerprint=digest,
        goal=1,
    ),
    make_row("`onnx.compose`: merge two models of 20,000 nodes, under `onnxwire.dropin`", merge),
    make_row(
        "onnx-ir: convert 20,000 nodes to it and back, under `onnxwire.dropin`", convert_to_onnx_ir_and_back, "onnx_ir"
    ),
    make_row(
        "graphsurgeon: convert 20,000 nodes to it and back, under `onnxwire.dropin`",
        convert_to_graphsurgeon_and_back,
        "onnx_graphsurgeon",
    ),
    make_row("`str(model)` of 20,000 nodes, under `onnxwire.dropin`", lambda _, model: str(model)),
]
