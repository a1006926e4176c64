"""The operators that ONNX itself defines, and the versions of their operator sets that changed them."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from onnxwire.checker.registry import read_table


@cache
def operators() -> dict[tuple[str, str], tuple[int, ...]]:
    """The versions of each operator, by domain ("" for the default one) and name; as of release 1.23."""
    rows = read_table("operators.tsv")
    return {(domain, name): tuple(map(int, versions.split())) for domain, name, versions in rows}


def since_version(domain: str, name: str, opset: int) -> int | None:
    """The version that an operator has in a version of its operator set, or None where it is not there.

    It is 0 for operators that ONNX does not define.
    """
    versions = operators().get((domain, name))
    if versions is None:
        return 0
    place = bisect_right(versions, opset)
    return versions[place - 1] if place else None
