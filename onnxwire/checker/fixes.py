"""Repairs faults for which exactly one safe repair exists. Each repair is a function, registered by ids of rules.

A repair does not change the meaning of a model for any reader: it removes exact repetitions and entries without effect,
clears invalid forms of an unknown size, and adds a value where only one is possible. The user must correct other
problems.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.facts import true_rows, unique
from onnxwire.checker.limits import MAX_CHANGES
from onnxwire.checker.rules.attribute import NAMES, VALUES
from onnxwire.engine.message import Message
from onnxwire.errors import ChangedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnxwire.checker.facts import Facts, FieldRows, Table
    from onnxwire.checker.problems import Problems

_BATCH_ROWS = 4096  # numbers of a column that are converted to ints at a time

# The field that identifies an element of a repeated field, by type.
_KEYS = {
    "AttributeProto": "name",
    "OperatorSetIdProto": "domain",
    "StringStringEntryProto": "key",
    "TensorAnnotation": "tensor_name",
    "ValueInfoProto": "name",
}


@dataclass(frozen=True, slots=True)
class Fix:
    """A possible repair.

    rule: the id of the broken rule. path: the element to remove, or the message to change. message: a description of
    the change.
    """

    rule: str
    path: str
    message: str


Chooser = Callable[[Any, "FieldRows", "Table"], Iterator[int]]


@dataclass(frozen=True, slots=True)
class _Remover:
    """A removal of elements from a repeated field.

    template: the description of a removal, formatted with the result of `detail` for the element. choose: a function of
    all elements of the field, the elements that break the rule, and their table; it returns the indices of the elements
    to remove.
    """

    template: str
    detail: Callable[[Any], str]
    choose: Chooser


# A function whose argument is a message that breaks a rule. It returns a template of the description, the detail to
# insert, and a function that changes a message; or None if there is no single safe repair.
Editor = Callable[[Any], tuple[str, str, Callable[[Any], object]] | None]

_removers: dict[str, _Remover] = {}
_editors: dict[str, Editor] = {}


def removes(template: str, detail: Callable[[Any], str], *rules: str) -> Callable[[Chooser], Chooser]:
    """Register a function that chooses elements to remove from repeated fields; see `_Remover`."""

    def register(choose: Chooser) -> Chooser:
        _removers.update(dict.fromkeys(rules, _Remover(template, detail, choose)))
        return choose

    return register


def edits(*rules: str) -> Callable[[Editor], Editor]:
    """Register an `Editor`, which returns a change of a message, for rules."""

    def register(editor: Editor) -> Editor:
        _editors.update(dict.fromkeys(rules, editor))
        return editor

    return register


def fixable_rules() -> set[str]:
    """Return the ids of rules that have repairs for some violations."""
    return _removers.keys() | _editors.keys()


def _key_of(element: Any) -> str:
    """Return the string that identifies an element of a repeated field."""
    if not isinstance(element, Message):
        return str(element)
    key: str = getattr(element, _KEYS[element.DESCRIPTOR.name])
    # The default domain has two names.
    return "" if key == "ai.onnx" and element.DESCRIPTOR.name == "OperatorSetIdProto" else key


@removes(
    "remove the entry {0!r}, which repeats an earlier one exactly",
    _key_of,
    "attribute-name-unique",
    "external-key-unique",
    "function-attribute-name-unique",
    "function-value-info-name-unique",
    "graph-value-info-name-unique",
    "metadata-model-key-unique",
    "metadata-nested-key-unique",
    "opset-import-duplicate-entry",
    "quant-annotation-key-unique",
    "quant-annotation-tensor-unique",
)
def _choose_repeated_entries(siblings: Any, field: FieldRows, table: Table) -> Iterator[int]:
    """Choose repeated entries if all entries with their key are equal. If they differ, choose none of them: a reader
    may use the last one.
    """
    first_indices = dict.fromkeys((_key_of(siblings[index]) for index in _numbers(field.indices)), -1)
    ambiguous: set[str] = set()
    for index, element in enumerate(siblings):
        key = _key_of(element)
        first_index = first_indices.get(key)
        if first_index == -1:
            first_indices[key] = index
        elif first_index is not None and key not in ambiguous and element != siblings[first_index]:
            ambiguous.add(key)
    return (index for index in _numbers(field.indices) if _key_of(siblings[index]) not in ambiguous)


def _value_names(facts: Facts) -> NDArray[np.bool_]:
    """Return whether each string, by id, is the name of a tensor, or of a value in any graph or function."""
    infos = facts.ValueInfoProto
    is_name = np.zeros(facts.columns.text_count(), bool)
    is_name[infos.name[infos.under("GraphProto.input", "GraphProto.output")]] = True
    is_name[facts.TensorProto.name] = True
    for field in ("NodeProto.input", "NodeProto.output", "FunctionProto.input", "FunctionProto.output"):
        is_name[facts.lists(field).value] = True
    return is_name


@removes(
    "remove the entry of {0!r}, which is not a value",
    lambda info: info.name,
    "graph-value-info-known-name",
    "function-value-info-known-name",
)
def _choose_stale_value_infos(siblings: Any, field: FieldRows, table: Table) -> Iterator[int]:
    """Choose entries whose name is not a value of any graph or function.

    Other graphs are considered because shape inference copies types from one graph to another.
    """
    is_name = table.facts.derive(_value_names)
    return _numbers(field.indices[~is_name[table.facts.ValueInfoProto.name[field.rows]]])


@removes(
    "remove the entry basepath, with the local directory {0!r}", lambda entry: entry.value, "external-key-basepath"
)
def _choose_base_paths(siblings: Any, field: FieldRows, table: Table) -> Iterator[int]:
    """Choose all entries: no reader uses basepath, a local directory that a loader added."""
    return _numbers(field.indices)


def _set_type(number: int, attribute: Any) -> None:
    """Set the type of an attribute."""
    attribute.type = number


# The functions that set the type of an attribute, by the type.
_TYPE_SETTERS = {number: functools.partial(_set_type, number) for number in NAMES}


@edits("attribute-type-present")
def _edit_missing_type(attribute: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """Return the edit that sets a missing type to that of the value, if there is one value and no reference."""
    present_types = [VALUES[name] for name in attribute._present() if name in VALUES]
    if attribute.ref_attr_name or len(present_types) != 1:
        return None
    return f"set the type of {{0!r}} to {NAMES[present_types[0]]}", attribute.name, _TYPE_SETTERS[present_types[0]]


@edits("attribute-type-valid")
def _edit_undefined_type(attribute: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """Return the edit that replaces the type UNDEFINED as `_edit_missing_type` does; None for an unknown number."""
    return _edit_missing_type(attribute) if attribute.HasField("type") and attribute.type == 0 else None


@edits("shape-dim-param-empty")
def _edit_empty_dim_param(dimension: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """Return the edit that clears an empty dim_param, which old exporters write for an unknown size."""
    return "clear the empty dim_param: an unknown size is an unset one", "", _clear_dim_param


@edits("shape-dim-value-nonnegative")
def _edit_unknown_size(dimension: Any) -> tuple[str, str, Callable[[Any], object]] | None:
    """Return the edit that clears a size of -1, an old form of an unknown size; None for other negative numbers."""
    if dimension.dim_value != -1:
        return None
    return "clear the dim_value -1: an unknown size is an unset one", "", _clear_dim_value


def _clear_dim_param(dimension: Any) -> None:
    dimension.ClearField("dim_param")


def _clear_dim_value(dimension: Any) -> None:
    dimension.ClearField("dim_value")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table that break a rule, and that an edit or a removal repairs."""

    rule: str
    table: Table
    rows: NDArray[np.int32]


class Fixes(Collection[Fix]):
    """The possible repairs of a message. They can be iterated over until they are applied.

    Repairs are stored as row numbers of the findings, since a damaged file may need a million repairs.
    omitted: the number of violations that were not examined because of `limits.MAX_CHANGES`. After these repairs,
    `check` and `find_fixes` find the next ones.
    """

    __slots__ = ("_edits", "_is_applied", "_message", "_removals", "omitted")

    def __init__(self, message: Message, problems: Problems) -> None:
        self.omitted = 0
        self._message = message
        self._is_applied = False
        self._edits: list[_Rows] = []
        self._removals: list[_Rows] = []
        removed_rows: dict[int, NDArray[np.bool_]] = {}  # by id of the table: whether each row is removed
        for rule, table, rows in problems.rows(fixable_rules()):
            if rule in _editors:
                self._edits.append(_Rows(rule, table, self._editable(rule, table, rows)))
                continue
            is_removed = removed_rows.setdefault(id(table), np.zeros(table.n, bool))
            self._removals.append(_Rows(rule, table, self._removable(rule, table, rows[~is_removed[rows]])))
            is_removed[self._removals[-1].rows] = True

    def _editable(self, rule: str, table: Table, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rows that the editor of a rule can repair, within the limit of changes."""
        editable_rows = array("i")
        n_remaining = MAX_CHANGES - sum(len(fix_rows.rows) for fix_rows in self._edits)
        n_examined = 0
        for field, siblings in self._fields(table, rows):
            for row, index in zip(_numbers(field.rows), _numbers(field.indices), strict=True):
                if len(editable_rows) == n_remaining:
                    self.omitted += len(rows) - n_examined
                    return np.frombuffer(editable_rows, np.int32)
                n_examined += 1
                if _editors[rule](siblings[index]) is not None:
                    editable_rows.append(row)
        return np.frombuffer(editable_rows, np.int32)

    def _removable(self, rule: str, table: Table, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rows that the remover of a rule chooses."""
        removable_rows = array("i")
        for field, siblings in self._fields(table, rows):
            is_chosen = np.zeros(len(siblings), bool)
            for index in _removers[rule].choose(siblings, field, table):
                is_chosen[index] = True
            removable_rows.frombytes(field.rows[is_chosen[field.indices]].tobytes())
        return np.frombuffer(removable_rows, np.int32)

    def _fields(self, table: Table, rows: NDArray[np.int32]) -> Iterator[tuple[FieldRows, Any]]:
        """Yield the fields that contain the rows, each with all its elements."""
        views = _Views(self._message, table)
        for field in table.by_field(rows):
            yield field, views.elements(field)

    def __len__(self) -> int:
        return sum(len(fix_rows.rows) for fix_rows in (*self._edits, *self._removals))

    def __contains__(self, fix: object) -> bool:
        return any(fix == own_fix for own_fix in self)

    def __iter__(self) -> Iterator[Fix]:
        """Yield each repair. Raises ChangedError after `apply`."""
        for fix_rows in (*self._edits, *self._removals):
            if self._is_applied:
                raise ChangedError("these repairs have already been applied; read them before that")
            for field, siblings in self._fields(fix_rows.table, fix_rows.rows):
                parent_path = fix_rows.table.facts.path(field.type_name, field.owner) if field.field else ""
                list_path = f"{parent_path}.{field.field}" if parent_path else field.field
                for index in _numbers(field.indices):
                    path = f"{list_path}[{index}]" if field.field else ""
                    yield Fix(fix_rows.rule, path, self._text(fix_rows.rule, siblings[index]))

    def _text(self, rule: str, element: Any) -> str:
        """Return the description of the repair of an element."""
        if rule in _removers:
            return _removers[rule].template.format(_removers[rule].detail(element))
        edit = _editors[rule](element)
        if edit is None:
            return ""
        template, detail, _ = edit
        return template.format(detail)

    def apply(self) -> None:
        """Apply the repairs; each repeated field is rebuilt once."""
        if self._is_applied:
            raise ChangedError("these repairs have already been applied")
        self._is_applied = True
        for fix_rows in self._edits:
            for field, siblings in self._fields(fix_rows.table, fix_rows.rows):
                for index in _numbers(field.indices):
                    element = siblings[index]
                    edit = _editors[fix_rows.rule](element)
                    if edit is not None:
                        _, _, change = edit
                        change(element)
        for table, rows in self._by_depth():
            for field, siblings in self._fields(table, rows):
                is_kept = np.ones(len(siblings), bool)
                is_kept[field.indices] = False
                siblings._arrange(true_rows(is_kept).tolist(), len(siblings))

    def _by_depth(self) -> Iterator[tuple[Table, NDArray[np.int32]]]:
        """Yield the rows to remove, by table, innermost first: a removal does not change the paths of later ones."""
        tables = {id(fix_rows.table): fix_rows.table for fix_rows in self._removals}
        rows = {
            table_id: np.sort(
                np.concatenate([fix_rows.rows for fix_rows in self._removals if id(fix_rows.table) == table_id])
            )
            for table_id in tables
        }
        depths = {table_id: table.depth_of(rows[table_id]) for table_id, table in tables.items()}
        for depth in sorted({depth for column in depths.values() for depth in unique(column).tolist()}, reverse=True):
            for table_id, table in tables.items():
                yield table, rows[table_id][depths[table_id] == depth]


def _numbers(column: NDArray[Any]) -> Iterator[int]:
    """Yield the numbers of a column as ints, without a list of all of them."""
    if len(column) <= _BATCH_ROWS:
        return iter(column.tolist())
    return (
        number
        for start in range(0, len(column), _BATCH_ROWS)
        for number in column[start : start + _BATCH_ROWS].tolist()
    )


class _Views:
    """The messages of rows; the last one of each type is cached, since many rows have the same parent."""

    def __init__(self, message: Message, table: Table) -> None:
        self._message = message
        self._facts = table.facts
        self._last: dict[str, tuple[int, Any]] = {}

    def elements(self, field: FieldRows) -> Any:
        """Return the elements of a field; for the root message, which is in no field, a list with that message."""
        if not field.field:
            return [self._message]
        return getattr(self._view(field.type_name, field.owner), field.field)

    def _view(self, type_name: str, row: int) -> Any:
        """Return the message of a row."""
        cached = self._last.get(type_name)
        if cached is not None and cached[0] == row:
            return cached[1]
        located = self._facts.columns.locate(type_name, row)
        if located is None:
            return self._message
        parent_type, parent_row, parent_field, index = located
        name, is_repeated = self._facts.step(parent_field)
        view = getattr(self._view(parent_type, parent_row), name)
        if is_repeated:
            view = view[index]
        self._last[type_name] = row, view
        return view


def find_fixes(message: Message, problems: Problems) -> Fixes:
    """Return the possible repairs of problems, which `check` found in a message.

    The message is not changed; `apply_fixes` changes it. To repair only some rules, select them in `check`.
    """
    return Fixes(message, problems)


def apply_fixes(fixes: Fixes) -> None:
    """Apply repairs that `find_fixes` returned. Raises ChangedError if they have been applied."""
    fixes.apply()
