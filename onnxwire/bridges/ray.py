"""Ray Data: a table of many models, read by the workers of a Ray cluster."""

from __future__ import annotations

from onnxwire.arrow.many import check_table, table_of
from onnxwire.errors import MissingPackageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pyarrow as pa
    import ray.data


def read(paths: Iterable[str | os.PathLike[str]], table: str, *, batch: int = 16) -> ray.data.Dataset:
    """Make a Ray Dataset of a table of many models, each row with its `model`.

    paths: models, which the workers find there. table: as of `to_arrow`. batch: models of a task.
    Nothing is read before the data set is used; a model that can't be read then raises what `to_arrow` raises.
    Raises FieldValueError for a table that there is not, MissingPackageError without Ray.
    """
    check_table(table)
    try:
        import ray.data
    except ImportError:
        raise MissingPackageError("this needs Ray and pyarrow; `pip install 'ray[data]'`") from None
    items = ray.data.from_items([{"path": str(path)} for path in paths])

    def read_some(some: pa.Table) -> pa.Table:
        import pyarrow as pa

        return pa.concat_tables([table_of(path, table) for path in some["path"].to_pylist()])

    return items.map_batches(read_some, batch_format="pyarrow", batch_size=batch)
