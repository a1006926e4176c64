"""Catalogs of many models: Parquet data sets that are asked in SQL, made by processes or clusters."""

from onnxwire.catalog.build import Summary, build

__all__ = ["Summary", "build"]
