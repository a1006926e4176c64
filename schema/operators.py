"""Generate onnxwire/checker/operators.tsv from the operators that the installed `onnx` package defines.

    python schema/operators.py

Run it after a new release of ONNX. Tests compare the table with the installed package. The notation is described in
onnxwire/checker/operator_table.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
from onnx import checker, defs, helper

TARGET = Path(__file__).parent.parent / "onnxwire" / "checker" / "operators.tsv"
_HEADER = "domain\toperator\tsince\tinputs\toutputs\tattributes\ttypes\tnotes"
_OPTION_SUFFIXES = {
    defs.OpSchema.FormalParameterOption.Single: "",
    defs.OpSchema.FormalParameterOption.Optional: "?",
    defs.OpSchema.FormalParameterOption.Variadic: "*",
}
_NOTATION = "# The notation is that of onnxwire/checker/operator_table.py: sets of types (@1, ...), then operators."
_MAX_TRIED_COUNTS = 8  # maximum number of counts above the minimum that are tried


def generate() -> str:
    """Return the text of the table."""
    schemas = sorted(
        defs.get_all_schemas_with_history(), key=lambda schema: (schema.domain, schema.name, schema.since_version)
    )
    names_by_types: dict[str, str] = {}
    rows = [_row(schema, names_by_types) for schema in schemas]
    title = f"# Operators of onnx {onnx.__version__}; written by schema/operators.py, not to be edited."
    lines = [title, _NOTATION, _HEADER]
    lines += [f"{name}\t{types}" for types, name in names_by_types.items()]
    return "\n".join([*lines, *rows]) + "\n"


def _row(schema: Any, names_by_types: dict[str, str]) -> str:
    """Return the line of one version of an operator.

    names_by_types: the name of each list of types that occurred so far; new lists are added to it.
    """
    constraints = []
    for constraint in schema.type_constraints:
        types = " ".join(sorted(map(_short_type, constraint.allowed_type_strs)))
        if " " in types:
            types = names_by_types.setdefault(types, f"@{len(names_by_types) + 1}")
        constraints.append(f"{constraint.type_param_str}={types}")
    type_variables = {constraint.type_param_str for constraint in schema.type_constraints}
    attributes = [
        f"{name}:{attribute.type.name}{'!' if attribute.required else ''}"
        for name, attribute in sorted(schema.attributes.items())
    ]
    notes = ["deprecated"] if schema.deprecated else [*_rejected_counts(schema), *_open_attributes(schema)]
    return "\t".join(
        [
            schema.domain,
            schema.name,
            str(schema.since_version),
            " ".join(_parameter_text(parameter, type_variables) for parameter in schema.inputs),
            " ".join(_parameter_text(parameter, type_variables) for parameter in schema.outputs),
            " ".join(attributes),
            " ".join(constraints),
            " ".join(notes),
        ]
    )


def _parameter_text(parameter: Any, type_variables: set[str]) -> str:
    """Return the notation of a formal parameter: its name, its type, and suffixes."""
    type_text = parameter.type_str if parameter.type_str in type_variables else _short_type(parameter.type_str)
    option = _OPTION_SUFFIXES[parameter.option]
    min_count = parameter.min_arity if option == "*" else ""
    return f"{parameter.name}:{type_text}{option}{min_count}{'' if parameter.is_homogeneous else '~'}"


def _short_type(type_text: str) -> str:
    """Return a type without the redundant `tensor(…)`: `float` for `tensor(float)`. `sparse_tensor(…)` stays."""
    return re.sub(r"(?<!_)tensor\((\w+)\)", r"\1", type_text.replace(" ", ""))


def _rejected_counts(schema: Any) -> list[str]:
    """Return notes about the counts of inputs and outputs between minimum and maximum that the operator rejects.

    They are found by trial, because `OpSchema` does not list them. Only the first counts are tried.
    """
    inputs = range(schema.min_input, min(schema.max_input, schema.min_input + _MAX_TRIED_COUNTS) + 1)
    outputs = range(schema.min_output, min(schema.max_output, schema.min_output + _MAX_TRIED_COUNTS) + 1)
    rejected = [("inputs", n) for n in inputs if "input size" in _error_message(schema, n, schema.min_output)]
    rejected += [("outputs", n) for n in outputs if "output size" in _error_message(schema, schema.min_input, n)]
    return [f"{parameters}!={n}" for parameters, n in rejected]


def _open_attributes(schema: Any) -> list[str]:
    """Return a note if the operator accepts undeclared attributes, which is found by trial."""
    message = _error_message(schema, schema.min_input, schema.min_output, "not_declared")
    return [] if "Unrecognized attribute" in message else ["attributes..."]


def _error_message(schema: Any, n_inputs: int, n_outputs: int, *attribute_names: str) -> str:
    """Return the official checker's error message for a node of the operator, or "" if the checker accepts the node.

    attribute_names: the names of the node's attributes, which have the value 0.
    """
    node = helper.make_node(
        schema.name,
        [f"i{i}" for i in range(n_inputs)],
        [f"o{i}" for i in range(n_outputs)],
        domain=schema.domain,
        **dict.fromkeys(attribute_names, 0),
    )
    context = checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {schema.domain: schema.since_version}
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")
