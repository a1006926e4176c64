"""Find the tensors whose elements are read by shape inference or the version converter of `onnx`."""

from __future__ import annotations

from onnxwire.engine.search import Search
from onnxwire.messages import ModelProto, NodeProto, TensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from onnxwire.engine.message import Message

    Value = tuple[str, str]
    """A value: the part of the model that contains it, such as "graph" or "functions[2]", and its name."""

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
READ_INPUTS = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1, 2), "ConstantOfShape": (0,),
    "DFT": (1, 2), "Expand": (1,), "HammingWindow": (0,), "HannWindow": (0,), "MelWeightMatrix": (0, 1),
    "OneHot": (0, 1), "Pad": (1, 3), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3), "STFT": (1, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "SplitToSequence": (1,), "Squeeze": (1,), "Tile": (1, 2), "TopK": (1,),
    "Unsqueeze": (1,), "Upsample": (1,),
    **{f"Reduce{kind}": (1,) for kind in _REDUCTIONS},
}  # fmt: skip
"""Operators, and the indexes of the inputs whose elements are read, in any version.

Source: `getInputData` and `getShapeInput` in onnx/defs of ONNX 1.23.2; `ReadInt64Tensor` and `ParseData` in
onnx/version_converter.
"""
PROPAGATED_INPUTS = {
    "Add": (0, 1), "Cast": (0,), "Concat": range(1 << 31), "Gather": (0, 1), "Mul": (0, 1), "Size": (0,), "Slice": (0,),
    "Squeeze": (0,), "Sub": (0, 1), "Unsqueeze": (0,),
}  # fmt: skip
"""Operators, and the indexes of the inputs that data propagation reads if they are integers with at most one dim.

Source: `PartialDataPropagationFunction` in onnx/defs.
"""
_INTEGER_TYPES = (TensorProto.INT32, TensorProto.INT64)
_ONNX_DOMAINS = ("", "ai.onnx")


def find_tensors_to_read(model: ModelProto, data_prop: bool = False) -> set[str]:
    """Return the paths of the initializers and values of Constant nodes whose elements are read.

    data_prop: include tensors that data propagation reads. The main graph and each function, with their subgraphs, are
    one namespace each. If a function reads one of its inputs, the arguments for this input in all calls of the function
    are included.
    """
    walk = _ModelWalk(model)
    read_values = walk.values_read_by(READ_INPUTS)
    propagated_values = walk.values_read_by(PROPAGATED_INPUTS) if data_prop else set()
    return {
        path
        for path, value, may_propagate in walk.tensors
        if value in read_values or (may_propagate and value in propagated_values)
    }


class _ModelWalk:
    """One walk over a model, which collects its tensors and the nodes that read values."""

    def __init__(self, model: ModelProto) -> None:
        self.tensors: list[tuple[str, Value, bool]] = []  # path, value, and whether it may be propagated
        self._users: list[tuple[str, str, list[str]]] = []  # nodes that may read elements: part, operator, inputs
        # The arguments in calls of functions, by the function's input.
        self._arguments: dict[Value, list[Value]] = {}
        # The part and the inputs of each function, by its identifier.
        functions = {
            (function.domain, function.name, function.overload): (f"functions[{i}]", list(function.input))
            for i, function in enumerate(model.functions)
        }
        names = {name for _, name, _ in functions}
        constant_prefix, constant_output = "", ""
        classes: Iterable[type[Message]] = (NodeProto, TensorProto)
        for path, message in Search(model, classes):
            part = path.partition(".")[0]
            if isinstance(message, TensorProto):
                is_constant = bool(constant_prefix) and path.startswith(constant_prefix)
                name = constant_output if is_constant else message.name
                may_propagate = message.data_type in _INTEGER_TYPES and len(message.dims) <= 1
                self.tensors.append((path, (part, name), may_propagate))
                continue
            assert isinstance(message, NodeProto)
            operator = message.op_type
            if operator in names:
                function = functions.get((message.domain, operator, message.overload))
                if function is not None:
                    for input_name, argument in zip(function[1], message.input, strict=False):
                        self._arguments.setdefault((function[0], input_name), []).append((part, argument))
            if operator == "Constant":
                constant_prefix, constant_output = f"{path}.", message.output[0] if message.output else ""
            elif (operator in READ_INPUTS or operator in PROPAGATED_INPUTS) and message.domain in _ONNX_DOMAINS:
                self._users.append((part, operator, list(message.input)))

    def values_read_by(self, table: Mapping[str, Container[int]]) -> set[Value]:
        """Return the values whose elements nodes read, directly or as an argument of a function.

        table: operators, and the indexes of the inputs that they read.
        """
        values = {
            (part, inputs[index])
            for part, operator, inputs in self._users
            for index in range(len(inputs))
            if index in table.get(operator, ())
        }
        pending_values = list(values)
        while pending_values:
            for value in self._arguments.get(pending_values.pop(), ()):
                if value not in values:
                    values.add(value)
                    pending_values.append(value)
        return values
