"""Tests that `check` and the official checker agree, except for the differences that docs/check.md documents."""

import re
from importlib import import_module
from pathlib import Path

import onnx
import pytest
from check_case import OPSET, model, nested_model, node, sparse, tensor, value
from each import each

import onnxwire
from onnxwire import ModelProto
from onnxwire.checker.registry import MODULES, rules

# Fields of a graph: an input, an output, and a node between them.
X = f"input {{ {value('x')} }}"
Y = f"output {{ {value('y')} }}"
IDENTITY = node("x", "y", op="Identity")


def model_with_initializer(tensor_fields):
    """Return a model with an initializer."""
    return model(f"initializer {{ {tensor_fields} }}")


def model_with_sparse_initializer(
    values="dims: 1 float_data: 1", indices="dims: 1 int64_data: 0", dims="dims: 4", index_type=7
):
    """Return a model with a sparse initializer. index_type: the data_type of the indices, INT64 by default."""
    return model(
        f'sparse_initializer {{ values {{ name: "s" data_type: 1 {values} }} '
        f"indices {{ data_type: {index_type} {indices} }} {dims} }}"
    )


def model_with_attribute(attribute_fields):
    """Return a model with a node that has an attribute."""
    # The domain of the operator has no schemas, so only rules of the IR can be broken.
    fields = f'domain: "com.example" attribute {{ {attribute_fields} }}'
    return model(X + node("x", "y", fields), opset=f'{OPSET} opset_import {{ domain: "com.example" version: 1 }}')


def model_with_input_type(type):
    """Return a model with an input of a type in text form."""
    return model(f'input {{ name: "x" type {{ {type} }} }}')


def model_with_function(
    function_fields="", body="", head='name: "f" domain: "com.example"', imports=OPSET, other_fields="", ir_version=8
):
    """Return a model with a function and a call of it.

    head, imports, function_fields: fields of the function. body: its nodes. other_fields: further fields of the model.
    """
    call = node("x", "y", 'domain: "com.example"', op="f")
    return model(
        X + call,
        ir=ir_version,
        opset=f'{OPSET} opset_import {{ domain: "com.example" version: 1 }}',
        fields=f"functions {{ {head} {imports} {function_fields} {body} }} {other_fields}",
    )


# By fault: the broken rule, the model, and a pattern in the official checker's message.
FAULTY_MODELS = {
    "no ir_version": ("model-ir-version-present", f'{OPSET} graph {{ name: "g" }}', "ir_version"),
    "an ir_version of the future": ("model-ir-version-known", model(ir=99), "ir_version"),
    "no graph": ("model-graph-present", f"ir_version: 8 {OPSET}", "graph"),
    "no opset_import": ("opset-import-required", model(opset=""), "opset_import"),
    "a metadata key twice": (
        "metadata-model-key-unique",
        model(fields='metadata_props { key: "a" value: "1" } metadata_props { key: "a" value: "2" }'),
        "duplicate keys",
    ),
    "a graph without name": ("graph-name-present", model(name=""), "'name' of 'graph'"),
    "an input without name": (
        "value-info-name-present",
        model("input { type { tensor_type { elem_type: 1 shape { } } } }"),
        "'name'",
    ),
    "an input without type": ("main-io-type-present", model('input { name: "x" }'), "'type'"),
    "an output without type": ("main-io-type-present", model(X + 'output { name: "x" }'), "'type'"),
    "an input whose type is of no kind": ("main-io-type-case-set", model_with_input_type(""), "type"),
    "an input without element type": (
        "type-tensor-elem-type",
        model_with_input_type("tensor_type { shape { } }"),
        "'elem_type'",
    ),
    "an input without shape": (
        "main-io-shape-present",
        model_with_input_type("tensor_type { elem_type: 1 }"),
        "'shape'",
    ),
    "a sparse input without element type": (
        "type-sparse-elem-type",
        model_with_input_type("sparse_tensor_type { shape { } }"),
        "'elem_type'",
    ),
    "a sequence of nothing": (
        "type-sequence-elem-type-present",
        model_with_input_type("sequence_type { }"),
        "'elem_type'",
    ),
    "a map without key type": (
        "type-map-key-type",
        model_with_input_type("map_type { value_type { tensor_type { elem_type: 1 } } }"),
        "'key_type'",
    ),
    "a map without value type": (
        "type-map-value-type",
        model_with_input_type("map_type { key_type: 7 }"),
        "'value_type'",
    ),
    "an optional of nothing": (
        "type-optional-elem-type-present",
        model_with_input_type("optional_type { }"),
        "'elem_type'",
    ),
    "two inputs of one name": ("graph-input-name-unique", model(X + X), "SSA"),
    "a node that reads a name that nothing produces": (
        "graph-node-input-defined",
        model(X + node("lost", "y", op="Identity")),
        "topologically sorted",
    ),
    "a node before its input": (
        "graph-topological-order",
        model(X + node("a", "y", op="Identity") + node("x", "a", op="Identity")),
        "sorted",
    ),
    "a node that reads itself": ("graph-acyclic", model(node("y", "y", op="Identity")), "sorted"),
    "a cycle of nodes": (
        "graph-acyclic",
        model(node("b", "a", op="Identity") + node("a", "b", op="Identity")),
        "sorted",
    ),
    "a name produced twice": ("node-output-ssa", model(X + IDENTITY + IDENTITY), "SSA"),
    "a name produced twice by one node": (
        "node-output-ssa",
        model(X + node("x", "y y", op="Split", fields='attribute { name: "axis" type: INT i: 0 }')),
        "SSA",
    ),
    "a node that produces an input": ("node-output-redefines-input", model(X + node("x", "x", op="Identity")), "SSA"),
    "a node that produces an initializer": (
        "node-output-redefines-initializer",
        model(X + f"initializer {{ {tensor('w')} }}" + node("x", "w", op="Identity")),
        "SSA",
    ),
    "an output that nothing produces": ("graph-output-defined", model(X + Y), "output"),
    "a node without operator": ("node-op-type-present", model(X + node("x", "y", op="")), "'op_type'"),
    "a node without inputs and outputs": ("node-has-output", model(node(op="Identity")), "zero input and zero output"),
    "a domain that is not imported": (
        "node-domain-imported",
        model(X + node("x", "y", 'domain: "com.example"')),
        "com.example",
    ),
    "an initializer without name": (
        "initializer-name-present",
        model_with_initializer("data_type: 1 dims: 1 float_data: 1"),
        "name",
    ),
    "two equal initializers": (
        "initializer-name-unique",
        model(f"initializer {{ {tensor('w')} }}" * 2),
        "unique",
    ),
    "a sparse and a dense initializer of one name": (
        "sparse-initializer-name-unique",
        model(f"initializer {{ {tensor('w')} }} sparse_initializer {{ {sparse('w')} }}"),
        "unique",
    ),
    "a sparse initializer without name": (
        "sparse-initializer-name-present",
        model(f"sparse_initializer {{ {sparse('')} }}"),
        "name",
    ),
    "an initializer that is not an input in IR 3": (
        "initializer-subset-of-inputs",
        model(f"initializer {{ {tensor('w')} }}", ir=3),
        "input",
    ),
    "a nested graph without name": (
        "graph-name-present",
        nested_model("", outputs="o").replace('g { name: "h"', "g {"),
        "'name' of 'graph'",
    ),
    "a nested node that reads a name that nothing produces": (
        "graph-node-input-defined",
        nested_model(node("lost", "a", op="Identity")),
        "sorted",
    ),
    "a nested node that reads a later value": (
        "subgraph-capture-visible",
        nested_model(node("late", "a", op="Identity"), after=node("x", "late", op="Identity")),
        "sorted",
    ),
    "a nested node that produces an outer name": (
        "subgraph-node-output-no-shadowing",
        nested_model(node("x", "x", op="Identity")),
        "SSA",
    ),
    "a nested input that has an outer name": ("subgraph-input-no-shadowing", nested_model('input { name: "x" }'), "x"),
    "a tensor without data type": (
        "tensor-data-type-present",
        model_with_initializer('name: "w" dims: 1 float_data: 1'),
        "data_type",
    ),
    "a tensor with values in two fields": (
        "tensor-single-storage",
        model_with_initializer(tensor("w", fields="float_data: 1 raw_data: '0000'")),
        "one value field",
    ),
    "a tensor without values": ("tensor-single-storage", model_with_initializer(tensor("w", fields="")), "value field"),
    "a float tensor with int32_data": (
        "tensor-int32-data-dtype",
        model_with_initializer(tensor("w", fields="int32_data: 1")),
        "int32_data",
    ),
    "raw strings": (
        "tensor-raw-data-dtype",
        model_with_initializer("name: 'w' data_type: 8 dims: 1 raw_data: 'a'"),
        "raw_data",
    ),
    "too few raw bytes": (
        "tensor-raw-data-length",
        model_with_initializer(tensor("w", "dims: 2", "raw_data: '0000'")),
        "too small|size",
    ),
    "a list that is too short": (
        "tensor-typed-data-count",
        model_with_initializer(tensor("w", "dims: 3", "float_data: [1, 2]")),
        "too small|size",
    ),
    "a dimension below zero": (
        "tensor-dims-nonnegative",
        model_with_initializer(tensor("w", "dims: -1", "raw_data: '0000'")),
        "dim",
    ),
    "external data without a location": (
        "external-location-present",
        model_with_initializer(tensor("w", fields="data_location: EXTERNAL")),
        "location",
    ),
    "external data at an absolute path": (
        "external-location-relative",
        model_with_initializer(
            tensor("w", fields='data_location: EXTERNAL external_data { key: "location" value: "/w.bin" }')
        ),
        "relative|absolute",
    ),
    "external data above the model": (
        "external-location-no-parent",
        model_with_initializer(
            tensor("w", fields='data_location: EXTERNAL external_data { key: "location" value: "../w.bin" }')
        ),
        "parent|directory|\\.\\.",
    ),
    "external data in a missing file": (
        "external-file-regular",
        model_with_initializer(
            tensor("w", fields='data_location: EXTERNAL external_data { key: "location" value: "w.bin" }')
        ),
        "w.bin",
    ),
    "sparse values of rank 2": (
        "sparse-values-rank-1",
        model_with_sparse_initializer(values="dims: [1, 1] float_data: 1"),
        "rank",
    ),
    "sparse indices that are not int64": (
        "sparse-indices-dtype",
        model_with_sparse_initializer(indices="dims: 1 int32_data: 0", index_type=6),
        "INT64",
    ),
    "a sparse index out of range": (
        "sparse-indices-bounds",
        model_with_sparse_initializer(indices="dims: 1 int64_data: 4"),
        "range",
    ),
    "sparse indices out of order": (
        "sparse-indices-ascending",
        model_with_sparse_initializer("dims: 2 float_data: [1, 2]", "dims: 2 int64_data: [1, 0]"),
        "sorted",
    ),
    "more indices than sparse values": (
        "sparse-indices-linear-shape",
        model_with_sparse_initializer(indices="dims: 2 int64_data: [0, 1]"),
        "values|NNZ|dim",
    ),
    "a sparse tensor without shape": ("sparse-dims-present", model_with_sparse_initializer(dims=""), "rank|dims"),
    "an attribute without name": ("attribute-name-present", model_with_attribute("type: INT i: 1"), "'name'"),
    "an attribute without type": ("attribute-type-present", model_with_attribute('name: "a" i: 1'), "type"),
    "an attribute of another type": (
        "attribute-type-matches-field",
        model_with_attribute('name: "a" type: FLOAT i: 1'),
        "mismatch",
    ),
    "an attribute of two values": (
        "attribute-single-value-field",
        model_with_attribute('name: "a" type: INT i: 1 f: 1'),
        "value|mismatch",
    ),
    "a broken tensor in an attribute": (
        "tensor-data-type-present",
        model_with_attribute('name: "a" type: TENSOR t { dims: 1 float_data: 1 }'),
        "data_type",
    ),
    "a broken graph in an attribute": (
        "graph-name-present",
        model_with_attribute('name: "a" type: GRAPHS graphs { }'),
        "'name' of 'graph'",
    ),
    "a function without name": ("function-name-present", model_with_function(head='domain: "com.example"'), "'name'"),
    "a function without domain": ("function-domain-present", model_with_function(head='name: "f"'), "'domain'"),
    "two inputs of one name in a function": (
        "function-input-name-unique",
        model_with_function('input: ["a", "a"]'),
        "input|unique|SSA",
    ),
    "two outputs of one name in a function": (
        "function-output-name-unique",
        model_with_function('input: "a" output: ["b", "b"]', node("a", "b", op="Identity")),
        "output|unique",
    ),
    "a function attribute twice": (
        "function-attribute-name-unique",
        model_with_function('attribute: ["a", "a"]'),
        "attribute",
    ),
    "an unsorted function": (
        "function-topological-order",
        model_with_function('input: "a" output: "b"', node("c", "b", op="Identity") + node("a", "c", op="Identity")),
        "sorted",
    ),
    "a function that reads the main graph": (
        "function-no-outer-capture",
        model_with_function('output: "b"', node("x", "b", op="Identity")),
        "sorted",
    ),
    "a name produced twice in a function": (
        "function-node-output-ssa",
        model_with_function('input: "a" output: "b"', node("a", "b", op="Identity") * 2),
        "SSA|twice|unique",
    ),
    "a function that does not import a domain in use": (
        "function-opset-covers-body",
        model_with_function('input: "a" output: "b"', node("a", "b", op="Identity"), imports=""),
        "No Opset registered",
    ),
}


def official_error(data, folder):
    """Return the official checker's message about a model, "" if it accepts the model."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("fault", FAULTY_MODELS)
def test_a_broken_model_is_rejected_by_both_checkers_for_the_same_reason(fault, tmp_path):
    rule, text, pattern = FAULTY_MODELS[fault]
    official_message = official_error(onnxwire.from_text(text).SerializeToString(), tmp_path)
    assert re.search(pattern, official_message), official_message
    assert rule in {problem.rule for problem in onnxwire.check(tmp_path / "model.onnx", select="error")}


# By name: a rule and a document of its case, for the cases whose documents are models and which have no options.
CASES = {
    f"{id}-{kind}": (id, getattr(case, kind))
    for name in MODULES
    for id, case in import_module(f"cases.{name}").CASES.items()
    for kind in ("broken", "valid")
    if case.type is ModelProto and not case.options
}

# --- the page that documents the differences

PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
PROTOS = sorted(Path(onnx.__file__).parent.glob("*.proto"))


def table_rows(heading):
    """Return the rows of the table of PAGE below a heading: rule ids, the description of the model, and the source."""
    lines = PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0].strip().splitlines()
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines[2:]]
    return [
        (re.findall(r"`([a-z0-9-]+)`", rule_ids), model_description, source)
        for rule_ids, model_description, source in cells
    ]


# Rules whose broken models may be rejected by onnxwire alone.
REJECTED_BY_US = {id for ids, _, _ in table_rows("Errors here, accepted there") for id in ids}
# Rules whose broken models may be rejected by the official checker alone.
REJECTED_BY_ONNX = {id for ids, _, _ in table_rows("Rejected there, no error here") for id in ids}


def test_the_tables_name_existing_rules():
    assert len(REJECTED_BY_US) > 100 and len(REJECTED_BY_ONNX) > 10
    assert rules().keys() >= REJECTED_BY_US | REJECTED_BY_ONNX
    assert {rules()[id].severity for id in REJECTED_BY_US} == {"error"}


@each("key", CASES)
def test_differences_between_the_checkers_are_documented(key, tmp_path):
    id, content = CASES[key]
    data = content if isinstance(content, bytes) else onnxwire.from_text(content).SerializeToString()
    official_message = official_error(data, tmp_path)
    problems = onnxwire.check(tmp_path / "model.onnx", select="error")
    # The official checker ignores training_info, as a row of the table "Errors here, accepted there" documents.
    errors = {problem.rule for problem in problems if not problem.path.startswith("training_info")}
    if not official_message:
        assert errors <= REJECTED_BY_US
    elif not problems:
        assert id in REJECTED_BY_ONNX, official_message


def test_quotations_from_the_proto_files_are_exact():
    text = "\n".join(re.sub(r"^\s*//", " ", line) for path in PROTOS for line in path.read_text().splitlines())
    text = " ".join(text.split())
    n_quotes = 0
    for heading in ("Errors here, accepted there", "Rejected there, no error here"):
        for _, _, source in table_rows(heading):
            for source_part in source.split("; "):
                # The name of a file also applies to the following sources that begin with "the same".
                if not source_part.startswith(("onnx-ml.proto", "onnx-data.proto", "the same")):
                    continue
                for quote in re.findall("“(.*?)”", source_part):
                    for quote_part in quote.replace("\\|", "|").split(" … "):
                        for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", quote_part):
                            assert sentence.rstrip(".") in text, sentence
                            n_quotes += 1
    assert n_quotes > 40
