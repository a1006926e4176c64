"""Reads signatures of operators from tables of text, which have a row for each version of an operator.

`operators.tsv` has the operators that ONNX itself defines; a user's table has the same notation, with tabs between
cells:

    domain  operator  since  inputs  outputs  attributes  types  notes

since: the version of the domain's operator set that introduced this signature. inputs, outputs: `name:type` each,
separated by spaces. A suffix `?` means optional, `*2` variadic with 2 or more values (last parameter only), and `~`
values of different types. attributes: `name:INT` each; a suffix `!` means required. types: the allowed types of each
type variable, `T=float|double` or `T=@3` (a set of types) each, separated by spaces. notes, separated by spaces:
`deprecated`; `attributes...`: undeclared attributes are allowed; `inputs!=3`, `outputs!=2`: a count that is not allowed
although it is between the minimum and the maximum.
A row `@3<tab>float double seq(int64)` defines `@3` as a set of types. A tensor type is written as its element
type, other types as `seq(T)`, `optional(T)`, `map(int64,T)` or `sparse_tensor(T)`. Lines that begin with # are
comments. Empty cells at the end may be omitted.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from onnxwire.engine.text_file import read_text
from onnxwire.errors import DecodeError
from onnxwire.messages import AttributeProto

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER_CELLS = ["domain", "operator", "since"]
_MAX_CELLS = 8
_MAX_ATTRIBUTES = 64  # also the maximum number of type variables: each is one bit of a 64-bit number
_ATTRIBUTE_TYPES = dict(AttributeProto.AttributeType.items())


class Parameter(NamedTuple):
    """A formal parameter of an operator.

    types: the allowed types. variable: the parameter's type variable; "" if it has none, or if its values may have
    different types. option: "" for a required parameter, "?" for an optional one, "*" for a variadic one. min_values:
    the minimum number of values of a variadic parameter.
    """

    name: str
    types: frozenset[str]
    variable: str
    option: str
    min_values: int


class Attribute(NamedTuple):
    """An operator's declaration of an attribute; type: a number of AttributeProto.AttributeType."""

    type: int
    is_required: bool


class Signature(NamedTuple):
    """The signature of an operator, valid from a version of its domain on.

    since: that version. is_open: whether undeclared attributes are allowed. disallowed_inputs, disallowed_outputs:
    numbers of inputs or outputs that are not allowed although they are between the minimum and the maximum.
    """

    domain: str
    operator: str
    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: dict[str, Attribute]
    is_deprecated: bool
    is_open: bool
    disallowed_inputs: tuple[int, ...]
    disallowed_outputs: tuple[int, ...]


def count_limits(parameters: tuple[Parameter, ...]) -> tuple[int, int | None]:
    """Return the least and the greatest number of values for formal parameters; None for no upper limit."""
    min_count = 0
    for i, parameter in enumerate(parameters):
        if parameter.option == "":
            min_count = i + 1
        elif parameter.option == "*":
            return i + parameter.min_values, None
    return min_count, len(parameters)


class _Row(NamedTuple):
    """A line of a table, which is parsed when its operator is first needed.

    source: the name of the table. line: the line number, from 1 on. sets: the types of each set by its name, as text.
    """

    source: str
    line: int
    cells: list[str]
    sets: dict[str, str]


class Operators:
    """The operators of one or several tables.

    versions: the ascending versions of an operator's signatures, by (domain, operator). domains: the known domains.
    """

    def __init__(self) -> None:
        self.versions: dict[tuple[str, str], tuple[int, ...]] = {}
        self.domains: set[str] = set()
        self._rows: dict[tuple[str, str, int], _Row] = {}
        self._signatures: dict[tuple[str, str, int], Signature] = {}
        self._steps: dict[str, list[int]] = {}

    def add(self, text: str, source: str) -> None:
        """Add a table, replacing signatures that are already known.

        Raises DecodeError, with the line number, for a row without an operator or a numeric version, or with too many
        cells. The other cells are parsed later, by `signature` or `check`.
        """
        sets: dict[str, str] = {}
        new_versions: dict[tuple[str, str], list[int]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            cells = line.split("\t")
            if line.startswith("@"):
                sets[cells[0]] = "".join(cells[1:])
                continue
            if not line.strip() or line.startswith("#") or cells[:3] == _HEADER_CELLS:
                continue
            row = _Row(source, number, cells, sets)
            if not 3 <= len(cells) <= _MAX_CELLS or not cells[1] or not cells[2].isdecimal():
                raise _fault(
                    row,
                    f"expected 3 to {_MAX_CELLS} cells (domain, operator, since, ...), with an operator and a whole "
                    "number in since",
                )
            domain, name, since = "" if cells[0] == "ai.onnx" else cells[0], cells[1], int(cells[2])
            self._rows[domain, name, since] = row
            if (domain, name) in new_versions:
                new_versions[domain, name].append(since)
            else:
                new_versions[domain, name] = [since]
        self._steps.clear()
        for (domain, name), versions in new_versions.items():
            for since in versions:
                self._signatures.pop((domain, name, since), None)
            self.versions[domain, name] = tuple(sorted({*versions, *self.versions.get((domain, name), ())}))
            self.domains.add(domain)

    def steps(self, domain: str) -> list[int]:
        """Return the versions of a domain that changed or added an operator, in order."""
        if domain not in self._steps:
            changed_versions = {
                since
                for (other_domain, _), versions in self.versions.items()
                if other_domain == domain
                for since in versions
            }
            self._steps[domain] = sorted(changed_versions)
        return self._steps[domain]

    def since_version(self, domain: str, name: str, opset: int) -> int | None:
        """Return the `since` of the signature that is valid in version `opset` of the domain, or None without one."""
        versions = self.versions.get((domain, name), ())
        i = bisect_right(versions, opset)
        return versions[i - 1] if i else None

    def signature(self, domain: str, name: str, since: int) -> Signature:
        """Return the signature that a version of the domain introduced. Raises DecodeError for a malformed row."""
        key = (domain, name, since)
        if key not in self._signatures:
            self._signatures[key] = _parse_row(self._rows[key], key)
        return self._signatures[key]

    @cached_property
    def domain_names(self) -> list[str]:
        """The domains, sorted."""
        return sorted(self.domains)

    @cached_property
    def periods(self) -> tuple[list[NDArray[np.int64]], list[int]]:
        """The steps of each domain, and the index of its first period; `domain_names` has the domains.

        A period is a range of versions between two steps, before the first one or from the last one on. The periods of
        all domains are indexed together; the list of first periods has a further element, the number of all periods.
        """
        steps = [np.array(self.steps(name), np.int64) for name in self.domain_names]
        return steps, list(accumulate((len(domain_steps) + 1 for domain_steps in steps), initial=0))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all operators."""
        return frozenset(name for _, name in self.versions)

    def check(self) -> None:
        """Parse all rows. Raises DecodeError for a malformed one."""
        for domain, name, since in self._rows:
            self.signature(domain, name, since)


@cache
def operators() -> Operators:
    """Return the operators that ONNX itself defines."""
    table = Operators()
    path = os.path.join(os.path.dirname(__file__), "operators.tsv")
    table.add(read_text(path, "a table of operators"), os.path.basename(path))
    table.domains.add("ai.onnx.training")  # known although its operators moved to ai.onnx.preview.training
    return table


def load_operators(path: str | os.PathLike[str]) -> Operators:
    """Return the operators of ONNX and of a further table.

    Raises SourceError for a file that can't be read or is too large, and DecodeError for a table that is malformed
    (with the line number) or not UTF-8.
    """
    table = Operators()
    standard = operators()
    table.versions |= standard.versions
    table.domains |= standard.domains
    table._rows |= standard._rows
    table.add(read_text(path, "a table of operators"), str(path))
    table.check()
    return table


def _parse_row(row: _Row, key: tuple[str, str, int]) -> Signature:
    """Return the signature of a row. key: domain, operator, since. Raises DecodeError if the row is malformed."""
    inputs, outputs, attributes, types, notes = (row.cells[3:] + [""] * _MAX_CELLS)[: _MAX_CELLS - 3]
    variables: dict[str, frozenset[str]] = {}
    for constraint in types.split():
        name, sign, type_names = constraint.partition("=")
        if not sign or not name or not type_names:
            raise _fault(row, f"{constraint!r} is not a type variable like T=float or T=@3")
        if type_names.startswith("@") and type_names not in row.sets:
            raise _fault(
                row,
                f"the set of types {type_names} is not defined above; add a row of {type_names}, a tab and the types",
            )
        variables[name] = frozenset(
            row.sets[type_names].split() if type_names.startswith("@") else type_names.split("|")
        )
    attributes_by_name = {}
    for text in attributes.split():
        name, _, kind = text.removesuffix("!").rpartition(":")
        if not name or kind not in _ATTRIBUTE_TYPES:
            raise _fault(row, f"{text!r} is not an attribute like axis:INT or to:INT!")
        attributes_by_name[name] = Attribute(_ATTRIBUTE_TYPES[kind], text.endswith("!"))
    if len(attributes_by_name) > _MAX_ATTRIBUTES or len(variables) > _MAX_ATTRIBUTES:
        raise _fault(row, f"an operator has at most {_MAX_ATTRIBUTES} attributes and {_MAX_ATTRIBUTES} type variables")
    disallowed: dict[str, list[int]] = {"inputs": [], "outputs": []}
    for note in notes.split():
        parameter_kind, sign, count = note.partition("!=")
        if sign and parameter_kind in disallowed and count.isdecimal():
            disallowed[parameter_kind].append(int(count))
        elif note not in ("deprecated", "attributes..."):
            raise _fault(row, f"{note!r} is not one of 'deprecated', 'attributes...', 'inputs!=N', 'outputs!=N'")
    return Signature(
        *key,
        _parameters(row, inputs, variables),
        _parameters(row, outputs, variables),
        attributes_by_name,
        "deprecated" in notes.split(),
        "attributes..." in notes.split(),
        tuple(disallowed["inputs"]),
        tuple(disallowed["outputs"]),
    )


def _parameters(row: _Row, cell: str, variables: dict[str, frozenset[str]]) -> tuple[Parameter, ...]:
    """Return the formal parameters in a cell. variables: the allowed types of each type variable."""
    result: list[Parameter] = []
    for text in cell.split():
        name, _, kind = text.rpartition(":")
        is_mixed = kind.endswith("~")
        kind, variadic_sign, min_count = kind.removesuffix("~").partition("*")
        option = "*" if variadic_sign else "?" if kind.endswith("?") else ""
        kind = kind.removesuffix("?")
        if not name or not kind or (variadic_sign and min_count and not min_count.isdecimal()):
            raise _fault(row, f"{text!r} is not a parameter like X:T, B:T?, inputs:T*1 or step:int64")
        if result and result[-1].option == "*":
            raise _fault(row, f"{text!r} comes after a variadic parameter, which has to be the last one")
        types = variables.get(kind) or frozenset([kind])
        variable = kind if kind in variables and not is_mixed else ""
        result.append(Parameter(name, types, variable, option, int(min_count or 0)))
    return tuple(result)


def _fault(row: _Row, reason: str) -> DecodeError:
    """Return the error of a row of a table."""
    return DecodeError(f"line {row.line}: {reason}", source=row.source)
