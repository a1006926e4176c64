"""Catalogs of many models: Parquet data sets that are queried in SQL and built by local processes or a cluster."""

from onnxwire.catalog.build import Summary, build
from onnxwire.catalog.files import files_of

__all__ = ["Summary", "build", "files_of"]
