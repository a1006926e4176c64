"""Dask DataFrames of one table of many models; Dask's workers read the models."""

from __future__ import annotations

from onnxwire.arrow.many import check_table, make_empty_table, read_table
from onnxwire.errors import MissingPackageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import dask.dataframe
    import pandas


def read(paths: Iterable[str | os.PathLike[str]], table: str) -> dask.dataframe.DataFrame:
    """Make a Dask DataFrame of a table of many models: one partition per model, with a column `model`.

    paths: paths of models, valid on the workers. table: a name as for `to_arrow`. Columns have pandas' Arrow types.
    Models are read when the frame is computed, which raises the errors of `to_arrow`.
    Raises FieldValueError for an unknown table, MissingPackageError without Dask, pandas or pyarrow.
    """
    check_table(table)
    try:
        import dask.dataframe as dd
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingPackageError("this needs Dask, pandas and pyarrow; `pip install 'dask[dataframe]'`") from None
    return dd.from_map(_make_frame, [str(path) for path in paths], table=table, meta=_make_frame(None, table))


def _make_frame(path: str | None, table: str) -> pandas.DataFrame:
    """Return the table of one model as a DataFrame; without a path, a DataFrame without rows."""
    import pandas

    arrow_table = make_empty_table(table) if path is None else read_table(path, table)
    return arrow_table.to_pandas(types_mapper=pandas.ArrowDtype)
