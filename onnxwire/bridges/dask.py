"""Dask DataFrame: a table of many models, read by the workers of a Dask cluster."""

from __future__ import annotations

from onnxwire.arrow.many import check_table, empty_table, table_of
from onnxwire.errors import MissingPackageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import dask.dataframe
    import pandas


def read(paths: Iterable[str | os.PathLike[str]], table: str) -> dask.dataframe.DataFrame:
    """Make a Dask DataFrame of a table of many models, a partition a model, each row with its `model`.

    paths: models, which the workers find there. table: as of `to_arrow`. Columns are of pandas' Arrow types.
    Nothing is read before the frame is computed; a model that can't be read then raises what `to_arrow` raises.
    Raises FieldValueError for a table that there is not, MissingPackageError without Dask, pandas and pyarrow.
    """
    check_table(table)
    try:
        import dask.dataframe as dd
        import pandas  # noqa: F401
    except ImportError:
        raise MissingPackageError("this needs Dask, pandas and pyarrow; `pip install 'dask[dataframe]'`") from None
    return dd.from_map(_frame, [str(path) for path in paths], table=table, meta=_frame(None, table))


def _frame(path: str | None, table: str) -> pandas.DataFrame:
    import pandas

    found = empty_table(table) if path is None else table_of(path, table)
    return found.to_pandas(types_mapper=pandas.ArrowDtype)
