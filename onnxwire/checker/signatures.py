"""Compares nodes with the signatures of their operators: the results of the pass in `_signatures.pyx`."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker._signatures import check_signatures
from onnxwire.checker.facts import EMPTY, is_one_of, lookup, true_rows, unique
from onnxwire.checker.limits import MAX_HINTS
from onnxwire.checker.operator_table import count_limits
from onnxwire.checker.rules.attribute import parameters_with_type, references
from onnxwire.checker.rules.function import Imports
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.rules.opset_import import normalized_domains
from onnxwire.checker.scopes import Scopes
from onnxwire.tensor.dtypes import DATA_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from onnxwire.checker.facts import Facts
    from onnxwire.checker.operator_table import Operators, Parameter, Signature

    Column = NDArray[Any]

# Experimental operators of ONNX 1.4 and earlier that no operator set contains; the official checker only warns about
# them.
WITHDRAWN = (
    "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
    "ParametricSoftplus", "Scale", "ScaledTanh",
)  # fmt: skip

# Flags of faults; `_signatures.pyx` has the same numbers.
INPUT_COUNT, OUTPUT_COUNT, LACKS_ATTRIBUTE = 1, 2, 4  # of nodes
# Of inputs and outputs. OTHER_TYPE: another type than that of an earlier parameter with the same type variable.
OMITTED, WRONG_TYPE, OTHER_TYPE = 1, 2, 4
UNKNOWN, WRONG_KIND = 1, 2  # of attributes
# Values of `signature_indices` for nodes without a signature: the operator is unknown, or is not checked.
_MISSING, _UNCHECKED = -1, -2

_MAX_HINT_CHARS = 100  # maximum length of a name for which similar names are searched
_MIN_SIMILARITY = 0.7  # minimum ratio of `difflib.SequenceMatcher` for a similar name
_OPTIONS = {"": 0, "?": 1, "*": 2}  # SINGLE, OPTIONAL and VARIADIC of `_signatures.pyx`, by `Parameter.option`
# Numbers of the types of elements: by text, such as "float", and by the number of the data type.
_DATA_TYPE_NUMBERS = {
    text: number for number, text in enumerate(["", *(data_type.name.lower() for data_type in DATA_TYPES)])
}
_ELEMENTS = lookup(256, np.array([data_type.number for data_type in DATA_TYPES]), range(1, len(DATA_TYPES) + 1), 0)


class Versions:
    """The version of its domain that applies to each node. `facts.derive(Versions)` returns the object.

    names: the domains whose operators are known. domains: for each node, an index of `names`, -1 for any other domain.
    versions: for each node, the imported version of its domain, 0 if there is none. In a model of an IR version below 3
    that has no imports, the version of the default domain is 1.
    """

    def __init__(self, facts: Facts) -> None:
        nodes, imports = facts.NodeProto, facts.OperatorSetIdProto
        self.names = facts.operators.domain_names
        domain_of = np.full(facts.columns.text_count(), -1, np.int8 if len(self.names) < 128 else np.int32)
        for number, name in enumerate(self.names):
            if (id := facts.find(name)) >= 0:
                domain_of[id] = number
        self.domains = domain_of[normalized_domains(facts, nodes.domain)]
        # If a domain has several entries, which another rule reports, the last one counts.
        models = true_rows(imports.under("ModelProto.opset_import"))
        imported = np.zeros(len(self.names) + 1, np.int64)
        imported[domain_of[normalized_domains(facts, imports.domain[models])]] = imports.version[models]
        if not len(models) and facts.root == "ModelProto" and facts.ir_version is not None and facts.ir_version < 3:
            imported[domain_of[EMPTY]] = 1
        imported[-1] = 0  # unknown domains
        self.versions = np.where(self.domains >= 0, imported[self.domains], 0).astype(np.int32)
        if "FunctionProto" in facts.present:
            function_imports, functions = facts.derive(Imports), facts.derive(Scopes).node_function
            in_functions = true_rows((functions >= 0) & (self.domains >= 0))
            reversed_keys = (function_imports.functions[::-1], function_imports.domains[::-1])
            positions = facts.join(
                (functions[in_functions], normalized_domains(facts, nodes.domain[in_functions])), reversed_keys
            )
            function_versions = np.append(imports.version[function_imports.rows][::-1], 0)
            self.versions[in_functions] = function_versions[positions].clip(0, 0x7FFFFFFF)
        np.maximum(self.versions, 0, out=self.versions)


class Types:
    """Assigns numbers to types; 0 is an unknown type. A type is written as in tables of operators."""

    def __init__(self) -> None:
        self.texts = list(_DATA_TYPE_NUMBERS)
        self.numbers = dict(_DATA_TYPE_NUMBERS)

    def number(self, text: str) -> int:
        """Return the number of a type."""
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def of_elements(self, template: str = "{}") -> Column:
        """Return the numbers of types by the data type of the element; 0 for invalid data types.

        template: the text of a type, in which {} is the element.
        """
        if template == "{}":
            return _ELEMENTS
        column = np.zeros(256, np.int32)
        for data_type in DATA_TYPES:
            column[data_type.number] = self.number(template.format(data_type.name.lower()))
        return column

    def of_values(self, facts: Facts) -> Column:
        """Return the number of the type of each row of TypeProto, followed by a 0."""
        types = facts.TypeProto
        result = np.zeros(types.n + 1, np.int32)
        if not types.n:
            return result
        for field, name, template in (
            ("tensor_type", "TypeProto.Tensor", "{}"),
            ("sparse_tensor_type", "TypeProto.SparseTensor", "sparse_tensor({})"),
        ):
            if f"TypeProto.{field}" in facts.present:
                rows = true_rows(types.has(field))
                elements = facts[name].elem_type[getattr(types, field)[rows]]
                result[rows] = self.of_elements(template)[_valid_data_types(elements)]
        if facts.present.isdisjoint(("TypeProto.sequence_type", "TypeProto.map_type", "TypeProto.optional_type")):
            return result
        # Types that contain other types: the deepest first, all types of one depth at once.
        nested = true_rows(types.has("sequence_type") | types.has("map_type") | types.has("optional_type"))
        for depth in unique(types.depth[nested])[::-1].tolist():
            rows = nested[types.depth[nested] == depth]
            for field, name, child in (
                ("sequence_type", "TypeProto.Sequence", "elem_type"),
                ("optional_type", "TypeProto.Optional", "elem_type"),
                ("map_type", "TypeProto.Map", "value_type"),
            ):
                rows_of_field = rows[types.has(field)[rows]]
                if len(rows_of_field):
                    children = getattr(types, field)[rows_of_field]
                    child_types = result[getattr(facts[name], child)[children]]
                    keys = (
                        _valid_data_types(facts[name].key_type[children])
                        if field == "map_type"
                        else np.zeros(len(rows_of_field), np.int64)
                    )
                    result[rows_of_field] = self._of_nested(field, child_types, keys)
        return result

    def _of_nested(self, field: str, child_types: Column, keys: Column) -> Column:
        """Return the numbers of the types of sequences, optionals or maps.

        field: the field of TypeProto. child_types: the number of each element type. keys: the data type of each map's
        keys, 0 for sequences and optionals.
        """
        codes, code_of_row = np.unique(child_types.astype(np.int64) << 8 | keys, return_inverse=True)
        elements = self.of_elements()
        numbers = np.zeros(len(codes), np.int32)
        for k, code in enumerate(codes.tolist()):
            element_type, key_type = self.texts[code >> 8], self.texts[elements[code & 255]]
            if not element_type or (field == "map_type" and not key_type):
                continue
            if field == "map_type":
                numbers[k] = self.number(f"map({key_type},{element_type})")
            else:
                numbers[k] = self.number(f"{'seq' if field == 'sequence_type' else 'optional'}({element_type})")
        return numbers[code_of_row]


def _valid_data_types(elements: Column) -> Column:
    """Return data types, with 0 for those out of range."""
    return np.where((elements > 0) & (elements < 256), elements, 0)


class SignatureCheck:
    """The results of the pass over the nodes. `facts.derive(SignatureCheck)` returns the object.

    signature_indices: for each node, an index of `signatures`, -1 for an unknown operator, -2 for an operator that is
    not checked. nodes, inputs, outputs, attributes: flags of the faults of each row of NodeProto, NodeProto.input,
    NodeProto.output and AttributeProto. known_types: the type of each definition, as a number of `types`; see
    `Scopes.definitions`. declared: see `_declared`. names, domains, versions: see `Versions`.
    """

    def __init__(self, facts: Facts) -> None:
        nodes, scopes = facts.NodeProto, facts.derive(Scopes)
        self.operators = facts.operators
        self.names = facts.derive(Versions).names
        self.domains, self.versions = facts.derive(Versions).domains, facts.derive(Versions).versions
        self.signatures: list[Signature] = []
        self.types = Types()
        self.definitions = scopes.definitions
        self.columns = facts.columns
        self.signature_indices = self._choose(facts)
        n_outputs, n_inputs = facts.lists("NodeProto.output").n, facts.lists("NodeProto.input").n
        self.nodes = np.zeros(nodes.n, np.uint8)
        self.inputs = np.zeros(n_inputs, np.uint8)
        self.outputs = np.zeros(n_outputs, np.uint8)
        self.attributes = np.zeros(facts.AttributeProto.n, np.uint8)
        self.known_types = self.declared = np.zeros(0, np.int32)
        if not self.signatures:
            return
        tables = _tables(facts, self.signatures, self.types)
        value_types = self.types.of_values(facts)
        info_types = value_types[facts.ValueInfoProto.type] if facts.ValueInfoProto.n else value_types[:0]
        self.known_types = np.zeros(n_outputs + facts.ValueInfoProto.n + facts.TensorProto.n, np.int32)
        rows = true_rows((scopes.described_outputs >= 0) & (info_types != 0))
        self.known_types[scopes.described_outputs[rows]] = info_types[rows]
        self.known_types[n_outputs : n_outputs + len(info_types)] = info_types
        if facts.TensorProto.n:
            self.known_types[n_outputs + len(info_types) :] = self.types.of_elements()[
                _valid_data_types(facts.TensorProto.data_type)
            ]
        self.declared = _declared(facts)
        check_signatures(
            facts.columns, self.signature_indices, *tables, self.definitions, self.declared, self.known_types,
            self.nodes, self.inputs, self.outputs, self.attributes,
        )  # fmt: skip

    def _choose(self, facts: Facts) -> Column:
        """Return the index of each node's signature; `Operators.periods` defines the periods."""
        nodes, operators = facts.NodeProto, self.operators
        steps, first_periods = operators.periods
        periods = np.full(nodes.n, first_periods[-1], np.int32)
        is_checked = (self.versions > 0) & (nodes.op_type != EMPTY) & (facts.derive(Calls).function < 0)
        for number in unique(self.domains).tolist():
            if number >= 0:
                rows = true_rows(is_checked & (self.domains == number))
                periods[rows] = first_periods[number] + steps[number].searchsorted(self.versions[rows], "right")
        if nodes.n < len(operators.names):
            used_names = {facts.text(id): id for id in set(nodes.op_type.tolist())}
            ids = {name: id for name, id in used_names.items() if name in operators.names}
        else:
            ids = {name: id for name in operators.names if (id := facts.find(name)) >= 0}
        row_of = np.full(facts.columns.text_count(), len(ids), np.int32)
        row_of[list(ids.values())] = np.arange(len(ids))
        # A row for each operator and one for unknown operators; a column for each period and one for unchecked nodes.
        table = np.full((len(ids) + 1, first_periods[-1] + 1), _MISSING, np.int32)
        table[:, -1] = _UNCHECKED
        is_used = np.zeros(first_periods[-1] + 1, bool)
        is_used[periods] = True
        for column in true_rows(is_used[:-1]).tolist():
            number = bisect_right(first_periods, column) - 1
            period = column - first_periods[number]
            opset = int(steps[number][period - 1]) if period else 0
            for k, name in enumerate(ids):
                since = operators.since_version(self.names[number], name, opset)
                if since is not None:
                    table[k, column] = len(self.signatures)
                    self.signatures.append(operators.signature(self.names[number], name, since))
        indices: Column = table[row_of[nodes.op_type], periods]
        if facts.derive(withdrawn):
            indices[is_withdrawn(facts)] = _UNCHECKED
        return indices

    def text_of(self, id: int) -> str:
        """Return the string of an id."""
        return self.columns.text(int(id))

    def signature(self, node: int) -> Signature:
        """Return the signature of a node, which must have one."""
        return self.signatures[int(self.signature_indices[node])]

    def kind_of(self, attribute: int, kinds: Column) -> int:
        """Return the type of an attribute: its own, or that of the function's parameter to which it refers.

        kinds: the column AttributeProto.type.
        """
        return int(kinds[attribute]) or (int(self.declared[attribute]) if len(self.declared) else 0)

    def title(self, node: int) -> str:
        """Return a node's domain and version as text."""
        name = self.names[int(self.domains[node])]
        return f"version {self.versions[node]} of {name or 'the default operator set'}"

    def type_of_input(self, element: int) -> str:
        """Return the type of an element of NodeProto.input, "" if it is unknown."""
        definition = int(self.definitions[element])
        return self.types.texts[int(self.known_types[definition])] if definition >= 0 else ""

    def type_of_output(self, element: int) -> str:
        """Return the type of an element of NodeProto.output, "" if it is unknown."""
        return self.types.texts[int(self.known_types[element])]


def withdrawn(facts: Facts) -> list[int]:
    """Return the string ids of experimental operators that were withdrawn and whose names the document contains."""
    return [id for name in WITHDRAWN if (id := facts.find(name)) >= 0]


def is_withdrawn(facts: Facts) -> Column:
    """Return whether each node has an operator of `WITHDRAWN`."""
    nodes = facts.NodeProto
    result: Column = is_one_of(nodes.op_type, facts.derive(withdrawn))
    result &= (normalized_domains(facts, nodes.domain) == EMPTY) & (facts.derive(Calls).function < 0)
    return result


def _tables(
    facts: Facts, signatures: Sequence[Signature], types: Types
) -> tuple[Column, Column, Column, Column, Column]:
    """Return the tables that the pass reads: signatures, parameters, attributes, disallowed counts, and sets of types.

    The rows of the first three are structs of `_signatures.pyx`. Each table has an unused last row.
    """
    signature_rows: list[tuple[int, ...]] = []
    parameter_rows: list[tuple[int, ...]] = []
    attribute_rows: list[tuple[int, ...]] = []
    disallowed_counts: list[int] = []
    type_sets: dict[frozenset[str], int] = {}
    for signature in signatures:
        variables: dict[str, int] = {}
        parameter_ranges = []
        for parameters in (signature.inputs, signature.outputs):
            parameter_ranges += [len(parameter_rows), len(parameters)]
            for parameter in parameters:
                variable = parameter.variable
                parameter_rows.append(
                    (
                        type_sets.setdefault(parameter.types, len(type_sets)),
                        variables.setdefault(variable, len(variables)) if variable else -1,
                        _OPTIONS[parameter.option],
                        types.number(next(iter(parameter.types))) if len(parameter.types) == 1 else 0,
                    )
                )
        min_inputs, max_inputs = count_limits(signature.inputs)
        min_outputs, max_outputs = count_limits(signature.outputs)
        signature_rows.append(
            (
                *parameter_ranges,
                *(len(attribute_rows), len(signature.attributes)),
                *(min_inputs, -1 if max_inputs is None else max_inputs),
                *(min_outputs, -1 if max_outputs is None else max_outputs),
                *(len(disallowed_counts), len(signature.disallowed_inputs), len(signature.disallowed_outputs)),
                *(len(variables), signature.is_open),
            )
        )
        disallowed_counts += [*signature.disallowed_inputs, *signature.disallowed_outputs]
        attribute_rows += [
            (facts.find(name), attribute.type, attribute.is_required)
            for name, attribute in signature.attributes.items()
        ]
    numbers_of_sets = [[types.number(text) for text in type_set] for type_set in type_sets]
    allowed = np.zeros((len(type_sets) + 1, len(types.texts)), np.uint8)
    for row, numbers in enumerate(numbers_of_sets):
        allowed[row, numbers] = 1
    return (
        np.array([*signature_rows, (0,) * 15], np.int32),
        np.array([*parameter_rows, (0,) * 4], np.int32),
        np.array([*attribute_rows, (0,) * 3], np.int32),
        np.array([*disallowed_counts, 0], np.int32),
        allowed,
    )


def _declared(facts: Facts) -> Column:
    """Return, for each row of AttributeProto that is an untyped reference, the type of the parameter's default, or 0.

    Returns an empty array if there are no untyped references.
    """
    if "AttributeProto.ref_attr_name" not in facts.present:
        return np.zeros(0, np.int32)
    attributes = facts.AttributeProto
    rows, functions = facts.derive(references)
    is_untyped = attributes.type[rows] == 0
    if not is_untyped.any():
        return np.zeros(0, np.int32)
    rows, functions = rows[is_untyped], functions[is_untyped]
    defaults, keys = facts.derive(parameters_with_type)
    positions = facts.join((functions, attributes.ref_attr_name[rows]), keys)
    return lookup(attributes.n, rows[positions >= 0], attributes.type[defaults[positions[positions >= 0]]], 0).astype(
        np.int32
    )


def formal_parameter(parameters: tuple[Parameter, ...], index: int) -> Parameter:
    """Return the formal parameter of the input or output with an index; further ones belong to the last parameter."""
    return parameters[min(index, len(parameters) - 1)]


class Hints:
    """Suggestions for unknown operator names; at most MAX_HINTS names are looked up."""

    def __init__(self, operators: Operators) -> None:
        self.operators = operators
        self.hints: dict[tuple[str, str], str] = {}

    def remedy(self, domain: str, name: str, version: int) -> str:
        """Return the remedy for an unknown operator, the last part of the message."""
        versions = self.operators.versions.get((domain, name))
        if versions:
            return (
                f"it was introduced in version {versions[0]}; import that version, or use an operator of version "
                f"{version}"
            )
        if (domain, name) not in self.hints:
            if len(self.hints) >= MAX_HINTS or len(name) > _MAX_HINT_CHARS:
                return "correct op_type or domain"
            self.hints[domain, name] = self._look_up(domain, name)
        return self.hints[domain, name]

    def _look_up(self, domain: str, name: str) -> str:
        """Return a remedy: another domain that has the operator, or a similar name in the domain."""
        other_domains = [other_domain for other_domain, other_name in self.operators.versions if other_name == name]
        if other_domains:
            return f"{other_domains[0] or 'the default domain'} has it; set that domain"
        from difflib import get_close_matches

        names = [other_name for other_domain, other_name in self.operators.versions if other_domain == domain]
        names_by_lower = {other_name.lower(): other_name for other_name in names}
        similar_names = get_close_matches(name.lower(), names_by_lower, 1, _MIN_SIMILARITY)
        return f"did you mean {names_by_lower[similar_names[0]]}?" if similar_names else "correct op_type or domain"
