"""Cases of the rules of sparse tensors."""

from check_case import Case, model

from onnxwire import SparseTensorProto

_ROOT_PATHS = ("",)
_INDICES_PATHS = ("indices",)
_VALUES_PATHS = ("values",)
_TWO_FLOATS = "data_type: 1 dims: 2 float_data: 1 float_data: 2"
_NAMED_VALUES = f'name: "s" {_TWO_FLOATS}'


def _sparse_fields(
    indices: str = "dims: 2 int64_data: 1 int64_data: 3", values: str = _TWO_FLOATS, dims: str = "dims: 4"
) -> str:
    """Return the fields of a sparse tensor, by default of a vector with 4 elements, two of them stored."""
    return f"values {{ {values} }} indices {{ data_type: 7 {indices} }} {dims}"


def _int64_fields(*numbers: int, shape: str = "") -> str:
    """Return the fields dims and int64_data of indices. shape: the field dims; by default one dimension."""
    return (shape or f"dims: {len(numbers)}") + "".join(f" int64_data: {number}" for number in numbers)


def _raw_fields(*numbers: int, shape: str = "") -> str:
    """Return the fields dims and raw_data of indices. shape: the field dims; by default one dimension."""
    data = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
    return (shape or f"dims: {len(numbers)}") + ' raw_data: "' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


def _coo_sparse_fields(*numbers: int, dims: str = "dims: 2 dims: 3") -> str:
    """Return the fields of a sparse tensor whose indices are coordinates in two dimensions."""
    return _sparse_fields(_int64_fields(*numbers, shape=f"dims: {len(numbers) // 2} dims: 2"), dims=dims)


def _case(broken: str, valid: str | None = None, paths: tuple[str, ...] = _INDICES_PATHS) -> Case:
    """Return a case of sparse tensors. broken, valid: the fields of each sparse tensor."""
    return Case(broken, _sparse_fields() if valid is None else valid, paths, SparseTensorProto)


CASES = {
    "sparse-values-present": _case("indices { data_type: 7 dims: 0 } dims: 4", paths=_ROOT_PATHS),
    "sparse-values-rank-1": _case(_sparse_fields(values=f"dims: 1 {_TWO_FLOATS}"), paths=_VALUES_PATHS),
    "sparse-dims-present": _case(_sparse_fields(dims=""), paths=_ROOT_PATHS),
    "sparse-dims-positive": _case(_sparse_fields(dims="dims: 4 dims: 0 dims: -1"), paths=("dims[1]", "dims[2]")),
    "sparse-dims-product-overflow": _case(
        _sparse_fields(dims="dims: 4294967296 dims: 2147483648"),
        _sparse_fields(dims="dims: 4294967296 dims: 2147483647"),
        paths=_ROOT_PATHS,
    ),
    "sparse-indices-present": _case(
        f"values {{ {_TWO_FLOATS} }} dims: 4", "values { data_type: 1 dims: 0 } dims: 4", paths=_ROOT_PATHS
    ),
    "sparse-indices-dtype": _case(
        _sparse_fields().replace("data_type: 7", "data_type: 6").replace("int64_data", "int32_data")
    ),
    "sparse-indices-rank": _case(_sparse_fields(_int64_fields(1, 3, shape="dims: 2 dims: 1 dims: 1"))),
    "sparse-indices-linear-shape": _case(_sparse_fields(_int64_fields(0, 1, 3))),
    "sparse-indices-coo-shape": _case(_coo_sparse_fields(0, 1, 1, 2, dims="dims: 2"), _coo_sparse_fields(0, 1, 1, 2)),
    "sparse-indices-bounds": _case(_coo_sparse_fields(0, 1, 1, 3), _coo_sparse_fields(0, 1, 1, 2)),
    "sparse-indices-ascending": _case(_coo_sparse_fields(1, 0, 0, 2), _coo_sparse_fields(0, 2, 1, 0)),
    "sparse-indices-unique": Case(
        model(f"sparse_initializer {{ {_sparse_fields(_raw_fields(3, 3), _NAMED_VALUES)} }}"),
        model(f"sparse_initializer {{ {_sparse_fields(_raw_fields(2, 3), _NAMED_VALUES)} }}"),
        ("graph.sparse_initializer[0].indices",),
    ),
    "sparse-values-nondefault": _case(
        _sparse_fields(values=_TWO_FLOATS.replace("float_data: 2", "float_data: 0")),
        _sparse_fields(values=_TWO_FLOATS.replace("float_data: 2", "float_data: -0.0")),
        paths=_VALUES_PATHS,
    ),
}
