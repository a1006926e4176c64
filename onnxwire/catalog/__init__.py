"""Catalogs of many models: Parquet data sets that are asked in SQL, made by processes or clusters."""

from onnxwire.catalog.build import Summary, build
from onnxwire.catalog.dataset import files_of

__all__ = ["Summary", "build", "files_of"]
