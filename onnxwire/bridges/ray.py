"""Ray Datasets of a table of many models, read by the workers of a Ray cluster."""

from __future__ import annotations

from onnxwire.arrow.many import check_table, read_table
from onnxwire.errors import MissingPackageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pyarrow as pa
    import ray.data


def read(paths: Iterable[str | os.PathLike[str]], table: str, *, batch: int = 16) -> ray.data.Dataset:
    """Make a Ray Dataset of a table of many models, with a column `model`.

    paths: paths of models, valid on the workers. table: a name as for `to_arrow`. batch: the maximum number of models
    that are read into one Arrow table.
    Models are read when the data set is used, which raises the errors of `to_arrow`.
    Raises FieldValueError for an unknown table, MissingPackageError without Ray.
    """
    check_table(table)
    try:
        import ray.data
    except ImportError:
        raise MissingPackageError("this needs Ray and pyarrow; `pip install 'ray[data]'`") from None
    items = ray.data.from_items([{"path": str(path)} for path in paths])

    def read_batch(rows: pa.Table) -> pa.Table:
        import pyarrow as pa

        return pa.concat_tables([read_table(path, table) for path in rows["path"].to_pylist()])

    return items.map_batches(read_batch, batch_format="pyarrow", batch_size=batch)
