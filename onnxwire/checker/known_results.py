"""Reuses the results of evaluated nodes and function calls for others with the same operator, attributes and inputs."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxwire.checker.shape_values import OMITTED, UNKNOWN, UNKNOWN_CONSTANT, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_MAX_RESULTS = 4096  # maximum number of cached results, and of contents with an id


class Result(NamedTuple):
    """The result of a node or a function call.

    values: the Values of the outputs, None for an omitted or unknown one; outputs may be missing at the end.
    faults: the faults of a node, none for a function call; pairs of a dict of faults by the row of the node, and the
    fault. total: the number of elements that the result adds to the total of the model; see `ShapeBounds.total`.
    """

    values: Sequence[Value | None]
    faults: Sequence[tuple[dict[int, Any], Any]]
    total: int


class KnownResults:
    """A cache of results. A key contains the content id of each input; Values with equal ids are equal except `tensor`.

    n_element_reads: the number of reads of elements of stored tensors. An id does not depend on all elements, so a
    result is not cached if its evaluation read some. n_unevaluated_calls: the number of calls that were not evaluated
    because of a limit. The result of a function with such a call is not cached, because another evaluation of it may
    be complete.
    """

    def __init__(self) -> None:
        self.n_element_reads = 0
        self.n_unevaluated_calls = 0
        self._results: dict[Hashable, Result] = {}
        self._ids = _CONSTANT_IDS.copy()
        self._n_ids = 0
        self.get = self._results.get

    def add(self, key: Hashable, result: Result) -> None:
        """Cache a result. A full cache is emptied."""
        if len(self._results) >= _MAX_RESULTS:
            self._results.clear()
        self._results[key] = result

    def content_id(self, value: Value) -> int:
        """Return the content id of a Value. The Value must not change afterwards. Ids are never reused."""
        if value.content_id:
            return value.content_id
        content = _content(value) if value.sequence is None else None
        id = self._ids.get(content) if content is not None else None
        if id is None:
            self._n_ids += 1
            id = self._n_ids
            if content is not None:
                if len(self._ids) >= _MAX_RESULTS:
                    self._ids = _CONSTANT_IDS.copy()
                self._ids[content] = id
        value.content_id = id
        return id


def _content(value: Value) -> Hashable:
    """Return a key of a Value; Values are equal if their keys are."""
    flags = value.depends_on_input | value.is_lower_bound << 1 | value.is_exact << 2 | value.is_constant << 3
    # Numbers are marshalled because 1, True and 1.0 are equal in Python, and so are 0.0 and -0.0.
    return (
        value.shape,
        marshal.dumps(value.data, 0),
        flags,
        value.stored_elements,
        value.text_bytes,
        value.tensor >= 0,
    )


# Content ids of Values that all models share. OMITTED is not equal to an unknown Value, although its properties are.
OMITTED.content_id, UNKNOWN.content_id, UNKNOWN_CONSTANT.content_id = -1, -2, -3
_CONSTANT_IDS: dict[Hashable, int] = {_content(value): value.content_id for value in (UNKNOWN, UNKNOWN_CONSTANT)}
