"""Export tables of a model to Arrow, compared with lists that are made from official messages."""

from collections.abc import Callable
from typing import Any

from benchmarks.row import Row, Skip
from benchmarks.structure import PATH, prepare

TABLES = ("nodes", "attributes", "values")
TINY_MODEL = b"\x08\x08"  # a model with only its ir_version, 8


def prepare_polars() -> None:
    """Make the file. Skip the row if polars is not installed."""
    try:
        import polars  # noqa: F401
    except ImportError:
        raise Skip("polars is not installed") from None
    prepare()


def present_values(message: Any, *names: str) -> list[Any]:
    """Return the values of fields; None for absent fields."""
    return [getattr(message, name) if message.HasField(name) else None for name in names]


def list_nodes(model: Any) -> list[Any]:
    """Return the rows of the table `nodes` without the columns graph, offset and bytes."""
    return [
        (
            index,
            *present_values(node, "name", "op_type", "domain", "overload"),
            list(node.input),
            list(node.output),
            len(node.attribute),
            *present_values(node, "doc_string"),
        )
        for index, node in enumerate(model.graph.node)
    ]


def list_attributes(model: Any) -> list[Any]:
    """Return the rows of the table `attributes` without the column graph."""
    from onnx import AttributeProto

    names = {number: name for name, number in AttributeProto.AttributeType.items()}
    return [
        (
            index,
            *present_values(attribute, "name", "i", "f", "s", "ref_attr_name"),
            names[attribute.type],
            list(attribute.ints),
            list(attribute.floats),
            list(attribute.strings),
        )
        for index, node in enumerate(model.graph.node)
        for attribute in node.attribute
    ]


def list_values(model: Any) -> list[Any]:
    """Return the rows of the table `values` without the column graph, with elem_type instead of the type as text."""
    rows = []
    for field in ("input", "output", "value_info"):
        for value in getattr(model.graph, field):
            tensor = value.type.tensor_type
            dims = [present_values(dim, "dim_value", "dim_param") for dim in tensor.shape.dim]
            texts = [text if size is None else str(size) for size, text in dims]
            rows.append((field, value.name, tensor.elem_type, [size for size, _ in dims], texts))
    return rows


def ours(tables: tuple[str, ...]) -> Callable[[], object]:
    """Return an operation that exports tables of the file to pyarrow."""
    import pyarrow

    import onnxwire

    pyarrow.table(onnxwire.to_arrow(TINY_MODEL, "model"))  # does lazy imports
    return lambda: [pyarrow.table(onnxwire.to_arrow(PATH, table)) for table in tables]


def ours_to_polars() -> Callable[[], object]:
    """Return an operation that exports the nodes of the file to polars."""
    import polars

    import onnxwire

    polars.DataFrame(onnxwire.to_arrow(TINY_MODEL, "model"))  # does lazy imports
    return lambda: [polars.DataFrame(onnxwire.to_arrow(PATH, "nodes"))]


def official(list_functions: list[Callable[[Any], list[Any]]]) -> Callable[[], object]:
    """Return an operation that loads the file and lists the rows of tables."""
    import onnx

    def make_tables() -> object:
        model = onnx.load(PATH, load_external_data=False)
        return [list_rows(model) for list_rows in list_functions]

    return make_tables


def row_counts(result: Any) -> list[int]:
    """Return the number of rows of each table."""
    return [len(table) for table in result]


ROWS = [
    Row(
        "export nodes, attributes, values of 100,000 nodes and value_infos to pyarrow",
        prepare=prepare,
        ours=lambda: ours(TABLES),
        official=lambda: official([list_nodes, list_attributes, list_values]),
        fingerprint=row_counts,
        goal=20,
        anonymous_goal=60e6,
        repeats=5,
    ),
    Row(
        "export only the nodes to polars",
        prepare=prepare_polars,
        ours=ours_to_polars,
        official=lambda: official([list_nodes]),
        fingerprint=row_counts,
        goal=25,
        repeats=5,
    ),
]
