"""Changes dimensions of a model's inputs, and all dimensions that have the same variables; infers dependent shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from onnxwire.analysis.live_scopes import initializer_names
from onnxwire.analysis.paths import resolve
from onnxwire.engine.search import Search
from onnxwire.errors import EditError, Error, MissingPackageError, PathError, count_text, did_you_mean
from onnxwire.messages import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    Dim = TensorShapeProto.Dimension

# One dimension of an input: input:NAME[INDEX] or NAME[INDEX].
_POSITION = re.compile(r"(?:input:)?(.*)\[(-?\d{1,9})\]", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"-?\d+")
_MAX_DIM = (1 << 63) - 1  # the maximum of an int64
_MAX_SHAPE_ELEMENTS = 64  # maximum number of elements of a constant that is read as a shape
_SHAPE_READERS = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}  # the index of the input that is a shape
_GENERATED_PREFIX = "unk__"  # of the names that shape inference of the onnx package creates
_MAX_NESTED_TYPES = 33  # maximum depth of optional types


@dataclass
class DimensionChanges:
    """The changes that `change_dimensions` made, and the dependent parts that it could not change.

    count: the number of changed dimensions in types. cleared: names of values with a dimension that was an expression
    of a changed variable, such as `2*batch`, and is now unknown; for a type in an attribute, the dimension's path.
    constants: descriptions of constant shapes that contain the old size at the index of a changed dimension, such as
    "Reshape NODE: INPUT = [1, -1]". unknown: names of values whose shape was removed and not inferred.
    scopes: paths of subgraphs in which a changed variable is another dimension; they are unchanged. reason: why
    inference failed, or "".
    """

    count: int = 0
    cleared: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)
    reason: str = ""


def change_dimensions(
    model: ModelProto,
    sizes: Mapping[str, str | int],
    *,
    renames: Mapping[str, str] | None = None,
    dynamic: str | None = None,
    infer: bool = True,
) -> tuple[ModelProto, DimensionChanges]:
    """Change dimensions of the inputs of a model, and of all values that have the same dimension variable.

    model: the model, which is changed; after an error, some changes may remain. sizes: by variable (`batch`) or
    dimension of an input (`input:image[0]`, `image[-1]`), the new size or the name of a variable. renames: new
    names of variables by old names. dynamic: the name of a variable for the first dimension of every input that is not
    an initializer.
    If the dimension of an input is a variable, the variable changes in the main graph and its subgraphs, except in
    bodies of Loop and Scan in which it is another dimension. If a dimension that is a number or unknown changes, the
    shapes of all values except the model's inputs and initializers are removed, since each may depend on it.
    infer: whether to infer shapes with the onnx package.
    Functions are unchanged, because variables in functions are independent. Returns the model, a new one after
    inference, and the changes. Raises PathError for a variable, input or dimension that does not exist and for an
    input without a shape; EditError for changes that contradict each other, sizes that no dimension can have, names of
    variables that are not identifiers, new names in `renames` that another variable has, and `dynamic` in a model
    without inputs other than initializers. With `infer`, also raises the errors of `onnxwire.infer_shapes` that are
    subclasses of onnxwire.Error, except MissingPackageError.
    """
    plan = _Plan(model)
    for old, new in (renames or {}).items():
        plan.rename(old, _check_variable(new))
    for name, size in sizes.items():
        plan.set(name, _parse_dimension(size))
    if dynamic is not None:
        plan.make_dynamic(_check_variable(dynamic))
    return plan.apply(infer)


def _check_variable(text: str) -> str:
    """Return the name of a variable. Raises EditError if it is not an identifier."""
    if not _WORD.fullmatch(text):
        reason = "the name of a dimension variable is made of letters, digits and _, and does not begin with a digit"
        raise EditError(reason, repr(text))
    return text


def _parse_dimension(size: str | int) -> str | int:
    """Return the new value of a dimension: a size, or the name of a variable. Raises EditError for any other value."""
    if isinstance(size, str) and not _NUMBER.fullmatch(size):
        return _check_variable(size)
    number = int(size) if len(str(size)) < 30 else -1  # int() rejects texts of thousands of digits
    if not 0 <= number <= _MAX_DIM:
        raise EditError(f"a dimension is a number from 0 to {_MAX_DIM:,}, or the name of a variable", str(size)[:40])
    return number


class _Plan:
    """The planned changes of one model, which `apply` makes together.

    new_values: the new values of variables. positions: by name of an input and index, a dimension without a variable
    and its new value. inputs: the inputs that are not initializers, by name. variables: all variables of the main
    graph and its subgraphs.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.new_values: dict[str, str | int] = {}
        self.positions: dict[tuple[str, int], tuple[Dim, str | int]] = {}
        names = initializer_names(model.graph)
        self.inputs = {value.name: value for value in model.graph.input if value.name not in names}
        self.variables = {
            dim.dim_param: None for _, dim in Search(model.graph, [TensorShapeProto.Dimension]) if dim.dim_param
        }

    def edit_error(self, name: str, reason: str) -> EditError:
        """Return the error for a variable or input."""
        return EditError(reason, f"{self.model._document.name}: {name[:200]!r}")

    def rename(self, old: str, new: str) -> None:
        """Add the renaming of a variable."""
        self._set_variable(old, new)
        if new in self.variables and new != old:
            raise self.edit_error(
                old, f"there is a dimension variable {new!r} already; to make both equal, set {old!r} to {new!r}"
            )

    def _set_variable(self, old: str, new: str | int) -> None:
        """Add a new value of a variable. Raises PathError for an absent variable, EditError for a second value."""
        if old not in self.variables:
            variables = ", ".join(list(self.variables)[:20])
            variables_text = f"variables of the model: {variables}" if variables else "the model has no variables"
            hint = did_you_mean(old, self.variables) or f"; {variables_text}"
            reason = f"there is no dimension variable of this name{hint}; a dimension of an input is input:NAME[INDEX]"
            raise PathError(reason, old[:200], self.model._document.name)
        if self.new_values.setdefault(old, new) != new:
            raise self.edit_error(old, f"it can't become both {self.new_values[old]} and {new}")

    def set(self, name: str, value: str | int) -> None:
        """Add a new value of a variable, or of the dimension `input:NAME[INDEX]`."""
        position = _POSITION.fullmatch(name)
        if name in self.variables or position is None:
            self._set_variable(name, value)
            return
        dims = self._dims_of(position[1])
        index = int(position[2])
        if not -len(dims) <= index < len(dims):
            reason = f"the input has {count_text(len(dims), 'dimension')}"
            raise PathError(reason, name[:200], self.model._document.name)
        self._set_position(position[1], index % len(dims), dims[index], value)

    def make_dynamic(self, name: str) -> None:
        """Add a variable as the new value of every input's first dimension."""
        if not self.inputs:
            raise self.edit_error(name, "the model has no inputs other than initializers")
        for value in self.inputs.values():
            dims = self._dims_of(value.name)
            if len(dims):
                self._set_position(value.name, 0, dims[0], name)

    def _dims_of(self, name: str) -> list[Dim]:
        """Return the dimensions of an input. Raises PathError if there is no such input, or if it has no shape."""
        if name not in self.inputs:
            hint = did_you_mean(name, self.inputs) or "; initializers have fixed shapes"
            raise PathError(f"the graph has no input of this name{hint}", name[:200], self.model._document.name)
        shape = _shape_of(self.inputs[name].type)
        if shape is None:
            raise PathError("the input has no shape", name[:200], self.model._document.name)
        return list(shape.dim)

    def _set_position(self, name: str, index: int, dim: Dim, value: str | int) -> None:
        """Add a new value of a dimension of an input; if the dimension is a variable, of this variable."""
        if dim.dim_param:
            self._set_variable(dim.dim_param, value)
        elif self.positions.setdefault((name, index), (dim, value))[1] != value:
            raise self.edit_error(
                name, f"dimension {index} can't become both {self.positions[name, index][1]} and {value}"
            )

    def apply(self, infer: bool) -> tuple[ModelProto, DimensionChanges]:
        """Make all changes. Returns the model, a new one after inference, and the changes."""
        changes = DimensionChanges()
        old_sizes = {
            (index, dim.dim_value)
            for (_, index), (dim, value) in self.positions.items()
            if _read_dim(dim) not in (None, value)
        }
        has_stale_shapes = any(_read_dim(dim) != value for dim, value in self.positions.values())
        graph = self.model.graph
        excluded_scopes = _scopes_that_redefine(graph, self.new_values)
        changes.scopes += excluded_scopes
        self._change_variables(excluded_scopes, changes)
        for dim, value in self.positions.values():
            changes.count += _read_dim(dim) != value
            _write_dim(dim, value)
        if has_stale_shapes:
            changes.constants += _constant_shapes(graph, old_sizes)
        old_shaped_names = _shaped_values(self.model, clear=has_stale_shapes)
        result = self.model
        if infer:
            result = _infer_shapes(self.model, changes)
        new_shaped_names = _shaped_values(result) if has_stale_shapes else old_shaped_names
        lost_names = old_shaped_names - new_shaped_names
        changes.unknown += [
            value.name for value in (*result.graph.output, *result.graph.value_info) if value.name in lost_names
        ]
        return result, changes

    def _change_variables(self, excluded_scopes: list[str], changes: DimensionChanges) -> None:
        """Change the variables in the main graph and its subgraphs, except in some scopes; count the changes."""
        if not self.new_values:
            return
        cleared_paths: dict[str, None] = {}
        for path, dim in Search(self.model.graph, [TensorShapeProto.Dimension]):
            text = dim.dim_param
            if not text or any(_is_in(path, scope) for scope in excluded_scopes):
                continue
            if text in self.new_values:
                changes.count += 1
                _write_dim(dim, self.new_values[text])
            elif not self.new_values.keys().isdisjoint(_WORD.findall(text)):
                dim.Clear()
                cleared_paths[path.partition(".type.")[0]] = None
        for path in cleared_paths:
            value = resolve(self.model.graph, path).value
            changes.cleared.append(value.name if isinstance(value, ValueInfoProto) else path)


def _is_in(path: str, scope: str) -> bool:
    """Return whether a path is the path of a scope or inside the scope."""
    return path.startswith(scope) and path[len(scope) : len(scope) + 1] in ("", ".", "[")


def _read_dim(dim: Dim) -> str | int | None:
    """Return a dimension: a variable, a size, or None if it is unknown, like the -1 that some exporters write."""
    if dim.dim_param:
        return dim.dim_param
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _write_dim(dim: Dim, value: str | int) -> None:
    if isinstance(value, int):
        dim.dim_value = value
    else:
        dim.dim_param = value


def _shape_of(type_proto: TypeProto) -> TensorShapeProto | None:
    """Return the shape of a tensor type, or of the type that an optional contains; None if there is no shape."""
    for _ in range(_MAX_NESTED_TYPES):
        type_field = type_proto.WhichOneof("value")
        if type_field != "optional_type":
            break
        type_proto = type_proto.optional_type.elem_type
    if type_field not in ("tensor_type", "sparse_tensor_type"):
        return None
    tensor = getattr(type_proto, type_field)
    return tensor.shape if tensor.HasField("shape") else None


def _graph_values(graph: GraphProto) -> dict[str, ValueInfoProto]:
    """Return the inputs, outputs and value_infos of a graph by name."""
    return {value.name: value for field in (graph.output, graph.value_info, graph.input) for value in field}


def _scopes_that_redefine(graph: GraphProto, variables: Mapping[str, object]) -> list[str]:
    """Return the paths of the bodies of Loop and Scan in which a variable is another dimension than outside."""
    if not variables:
        return []
    paths: list[str] = []
    # By path of a graph: its values by name.
    values: dict[str, dict[str, ValueInfoProto]] = {"": _graph_values(graph)}
    for path, node in Search(graph, [NodeProto]):
        if node.op_type not in ("Loop", "Scan") or node.domain not in ("", "ai.onnx"):
            continue
        body_indexes = [number for number, attribute in enumerate(node.attribute) if attribute.name == "body"]
        if not body_indexes or any(_is_in(path, scope) for scope in paths):
            continue
        enclosing_path = path.rpartition("node[")[0].rstrip(".")
        if enclosing_path not in values:
            # Only the values of enclosing graphs are needed again, because the search returns only to these graphs.
            values = {key: graph_values for key, graph_values in values.items() if enclosing_path.startswith(key)}
            values[enclosing_path] = _graph_values(resolve(graph, enclosing_path).value)
        enclosing_values, body = values[enclosing_path], node.attribute[body_indexes[0]].g
        pairs = (
            (enclosing_values[name].type, body_input.type)
            for name, body_input in _input_pairs(node, body)
            if name in enclosing_values
        )
        if any(_has_other_dim(outer_type, inner_type, variables) for outer_type, inner_type in pairs):
            paths.append(f"{path}.attribute[{body_indexes[0]}].g")
    return paths


def _input_pairs(node: NodeProto, body: GraphProto) -> Iterator[tuple[str, ValueInfoProto]]:
    """Yield pairs of an input's name and the input of the body that has the same shape, for a Loop or Scan node."""
    if node.op_type == "Loop":
        yield from zip(node.input[2:], body.input[2:], strict=False)
        return
    n_scanned = next((attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"), 0)
    yield from list(zip(node.input, body.input, strict=False))[: max(len(node.input) - max(n_scanned, 0), 0)]


def _has_other_dim(outer_type: TypeProto, inner_type: TypeProto, variables: Mapping[str, object]) -> bool:
    """Return whether a dimension is one of the variables inside, and a size or another variable outside."""
    shapes = _shape_of(outer_type), _shape_of(inner_type)
    if shapes[0] is None or shapes[1] is None or len(shapes[0].dim) != len(shapes[1].dim):
        return False
    pairs = zip(shapes[0].dim, shapes[1].dim, strict=True)
    return any(
        inner_dim.dim_param in variables and _read_dim(outer_dim) not in (None, inner_dim.dim_param)
        for outer_dim, inner_dim in pairs
    )


def _shaped_values(model: ModelProto, clear: bool = False) -> set[str]:
    """Return the names of the values of the main graph whose shape is known, except its inputs and initializers.

    clear: whether to remove these shapes, and the shapes of values of subgraphs.
    """
    graph = model.graph
    names_to_skip = initializer_names(graph)
    names = {
        value.name
        for values in (graph.output, graph.value_info)
        for value in values
        if value.name not in names_to_skip and _has_known_shape(value.type)
    }
    if clear:
        for path, value in Search(graph, [ValueInfoProto]):
            if not path.startswith("input[") and value.name not in names_to_skip:
                for _, tensor_type in Search(value.type, [TypeProto.Tensor, TypeProto.SparseTensor]):
                    tensor_type.ClearField("shape")
    return names


def _has_known_shape(type_proto: TypeProto) -> bool:
    """Return whether a type has a shape, and no variable in the shape was generated by shape inference."""
    shape = _shape_of(type_proto)
    return shape is not None and not any(dim.dim_param.startswith(_GENERATED_PREFIX) for dim in shape.dim)


def _constant_shapes(graph: GraphProto, old_sizes: Collection[tuple[int, int]]) -> list[str]:
    """Return descriptions of nodes whose constant shape contains an old size at the index of a changed dimension.

    old_sizes: the indices and old sizes of changed dimensions.
    """
    constants: dict[str, TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
    readers: list[NodeProto] = []
    for _, node in Search(graph, [NodeProto]):
        if node.op_type == "Constant" and len(node.output):
            tensor = next((attribute.t for attribute in node.attribute if attribute.HasField("t")), None)
            if tensor is not None:
                constants.setdefault(node.output[0], tensor)
        elif node.op_type in _SHAPE_READERS:
            readers.append(node)
    descriptions = []
    for node in readers:
        input_index = _SHAPE_READERS[node.op_type]
        name = node.input[input_index] if input_index < len(node.input) else ""
        shape = _small_shape(constants[name]) if name in constants else []
        if any(index < len(shape) and shape[index] == size for index, size in old_sizes):
            label = node.name or (node.output[0] if len(node.output) else "")
            descriptions.append(f"{node.op_type} {label}: {name} = {shape}")
    return descriptions


def _small_shape(tensor: TensorProto) -> list[int]:
    """Return the elements of a small one-dimensional INT64 tensor; [] for any other or damaged tensor."""
    if tensor.data_type != TensorProto.INT64 or len(tensor.dims) != 1 or not 0 < tensor.dims[0] <= _MAX_SHAPE_ELEMENTS:
        return []
    try:
        return [int(number) for number in tensor.numpy()]
    except Error:
        return []


def _infer_shapes(model: ModelProto, changes: DimensionChanges) -> ModelProto:
    """Return the model with inferred shapes, or, if inference fails, the model itself, and set `changes.reason`.

    Raises the errors of onnxwire except MissingPackageError.
    """
    from onnxwire.bridges.onnx_tools import infer_shapes

    try:
        return infer_shapes(model, data_prop=True)
    except MissingPackageError as error:
        changes.reason = str(error)
    except Error:
        raise
    except Exception as error:  # the exceptions of the official package have no common base class
        changes.reason = f"the onnx package rejects the model: {' '.join(str(error).split())}"
    return model
