"""Tests that `onnxwire check --fix` repairs faults that have exactly one safe repair, and makes no other changes."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx_ir
import pytest
from check_case import OPSET, float_type, model, node, value

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto
from onnxwire.checker.fixes import apply_fixes, find_fixes, fixable_rules
from onnxwire.checker.registry import checked
from onnxwire.cli import main

ROOT = Path(__file__).parents[2]
FUNCTION = (
    f'functions {{ name: "f" domain: "d" input: "x" output: "y" opset_import {{ version: 17 }} {node("x", "y")} }}'
)


def model_with_attribute(attribute_fields, other_attributes=""):
    """Return a model with a node that has an attribute with these fields."""
    return model(
        f"input {{ {value('x')} }} value_info {{ {value('y')} }}"
        + node("x", "y", f"attribute {{ {attribute_fields} }} {other_attributes}")
    )


def model_with_function(function_fields, ir=10):
    """Return a model with a function that has these additional fields."""
    return model(
        ir=ir,
        fields=f'functions {{ name: "f" domain: "d.e" input: "x" output: "y" opset_import {{ version: 17 }} '
        f"{function_fields} "
        f"{node('x', 'y')} }}",
    )


def model_with_nested_info(name, graph_fields=""):
    """Return a model with a nested graph whose value_info has this name. graph_fields: fields of the outer graph."""
    branch = f"g {{ name: 'b' {node('x', 'i')} output {{ {value('i')} }} value_info {{ {value(name)} }} }}"
    return model(
        f"input {{ {value('c')} }} input {{ {value('x')} }} {graph_fields}"
        + node("c", "y", f'attribute {{ name: "then_branch" type: GRAPH {branch} }}', op="If")
        + node("y", "last")
    )


def entry(key, value_text):
    """Return the fields of a StringStringEntryProto, in braces."""
    return f'{{ key: "{key}" value: "{value_text}" }}'


def external_model(entries):
    """Return a model with an external tensor. entries: the entries of external_data."""
    return model(f'initializer {{ name: "w" data_type: 1 dims: 1 data_location: EXTERNAL {entries} }}')


LOCATION = f"external_data {entry('location', 'w.bin')}"

# By rule: models that break the rule, each with a function that repairs a message of the official runtime the same way.
CASES = {
    "attribute-name-unique": [
        (
            model_with_attribute('name: "a" type: INTS ints: 1', 'attribute { name: "a" type: INTS ints: 1 }'),
            lambda message: message.graph.node[0].attribute.pop(1),
        )
    ],
    "attribute-type-present": [
        (model_with_attribute('name: "a" f: 0'), lambda message: set_type(message, "FLOAT")),
        (model_with_attribute('name: "a" i: 7'), lambda message: set_type(message, "INT")),
        (model_with_attribute('name: "a" s: ""'), lambda message: set_type(message, "STRING")),
        (model_with_attribute('name: "a" t { dims: 0 data_type: 1 }'), lambda message: set_type(message, "TENSOR")),
        (model_with_attribute('name: "a" g { name: "h" }'), lambda message: set_type(message, "GRAPH")),
        (model_with_attribute('name: "a" floats: [1, 2]'), lambda message: set_type(message, "FLOATS")),
        (model_with_attribute('name: "a" ints: 0'), lambda message: set_type(message, "INTS")),
        (model_with_attribute('name: "a" strings: ["p", "q"]'), lambda message: set_type(message, "STRINGS")),
        (
            model_with_attribute('name: "a" tensors { dims: 0 data_type: 1 }'),
            lambda message: set_type(message, "TENSORS"),
        ),
        (
            model_with_attribute('name: "a" tp { tensor_type { elem_type: 1 } }'),
            lambda message: set_type(message, "TYPE_PROTO"),
        ),
    ],
    "attribute-type-valid": [
        (model_with_attribute('name: "a" type: UNDEFINED f: 1'), lambda message: set_type(message, "FLOAT"))
    ],
    "external-key-basepath": [
        (
            external_model(f"{LOCATION} external_data {entry('basepath', '/home/me')}"),
            lambda message: message.graph.initializer[0].external_data.pop(1),
        )
    ],
    "external-key-unique": [
        (external_model(f"{LOCATION} {LOCATION}"), lambda message: message.graph.initializer[0].external_data.pop(1)),
    ],
    "function-attribute-name-unique": [
        (model_with_function('attribute: ["a", "b", "a"]'), lambda message: message.functions[0].attribute.pop(2)),
    ],
    "function-value-info-known-name": [
        (
            model_with_function(f"value_info {{ {value('gone')} }}"),
            lambda message: message.functions[0].value_info.pop(0),
        ),
    ],
    "function-value-info-name-unique": [
        (
            model_with_function(f"value_info {{ {value('x')} }} value_info {{ {value('x')} }}"),
            lambda message: message.functions[0].value_info.pop(1),
        ),
    ],
    "graph-value-info-known-name": [
        (
            model("".join(f"value_info {{ {value(name)} }}" for name in ("p", "y", "q")) + node("", "y")),
            lambda message: (message.graph.value_info.pop(2), message.graph.value_info.pop(0)),
        ),
    ],
    "graph-value-info-name-unique": [
        (
            model("".join(f"value_info {{ {value(name)} }}" for name in "yzyy") + node("", "y z")),
            lambda message: (message.graph.value_info.pop(3), message.graph.value_info.pop(2)),
        ),
    ],
    "metadata-model-key-unique": [
        (
            model(
                fields="".join(
                    f"metadata_props {entry(*key_and_value)}" for key_and_value in ("a1", "b2", "a1", "c3", "c4")
                )
            ),
            lambda message: message.metadata_props.pop(2),
        ),
    ],
    "metadata-nested-key-unique": [
        (
            model(
                f"metadata_props {entry('a', 1)} metadata_props {entry('a', 1)}"
                + node("", "y", f"metadata_props {entry('a', 1)} metadata_props {entry('a', 1)}"),
                ir=10,
            ),
            lambda message: (message.graph.metadata_props.pop(1), message.graph.node[0].metadata_props.pop(1)),
        ),
    ],
    "opset-import-duplicate-entry": [
        (
            model(opset=f"{OPSET} opset_import {{ domain: 'a.b' version: 1 }} {OPSET}"),
            lambda message: message.opset_import.pop(2),
        ),
        (model_with_function("opset_import { version: 17 }"), lambda message: message.functions[0].opset_import.pop(1)),
    ],
    "quant-annotation-key-unique": [
        (
            model(
                f'quantization_annotation {{ tensor_name: "y" '
                f"quant_parameter_tensor_names {entry('SCALE_TENSOR', 's')} "
                f"quant_parameter_tensor_names {entry('SCALE_TENSOR', 's')} }}" + node("", "y")
            ),
            lambda message: message.graph.quantization_annotation[0].quant_parameter_tensor_names.pop(1),
        ),
    ],
    "quant-annotation-tensor-unique": [
        (
            model('quantization_annotation { tensor_name: "y" }' * 2 + node("", "y")),
            lambda message: message.graph.quantization_annotation.pop(1),
        ),
    ],
    "shape-dim-value-nonnegative": [
        (
            model(
                "input { "
                + value("x", float_type("dim { dim_value: -1 } dim { dim_value: 0 } dim { dim_value: 2 }"))
                + " }"
            ),
            lambda message: message.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        ),
        (
            model(
                f"value_info {{ {value('y', float_type('dim { dim_value: -1 denotation: ' + repr('DATA') + ' }'))} }}"
                + node("", "y")
            ),
            lambda message: message.graph.value_info[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        ),
    ],
    "shape-dim-param-empty": [
        (
            model(f"input {{ {value('x', float_type('dim { dim_value: 2 } dim { dim_param: ' + repr('') + ' }'))} }}"),
            lambda message: message.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param"),
        ),
    ],
}

# By fault: the broken rule, and a model whose fault has no unique repair.
UNREPAIRABLE = {
    "attributes that differ": (
        "attribute-name-unique",
        model_with_attribute('name: "a" type: INT i: 1', 'attribute { name: "a" type: INT i: 2 }'),
    ),
    "no value": ("attribute-type-present", model_with_attribute('name: "a"')),
    "two values": ("attribute-type-present", model_with_attribute('name: "a" f: 1 i: 1')),
    "a value and a reference": ("attribute-type-present", model_with_attribute('name: "a" f: 1 ref_attr_name: "b"')),
    "keys with two values": (
        "metadata-model-key-unique",
        model(fields="".join(f"metadata_props {entry(*key_and_value)}" for key_and_value in ("a1", "a2", "a1"))),
    ),
    "domains at two versions": (
        "opset-import-duplicate-entry",
        model(opset=f"{OPSET} opset_import {{ domain: 'ai.onnx' version: 18 }} {OPSET}"),
    ),
    "a size below 0 that is not -1": (
        "shape-dim-value-nonnegative",
        model(f"input {{ {value('x', float_type('dim { dim_value: -2 }'))} }}"),
    ),
    "value_info of a value of the outer graph": ("graph-value-info-known-name", model_with_nested_info("x")),
    "value_info of a value that a later node produces": ("graph-value-info-known-name", model_with_nested_info("last")),
    "value_info of a value in a nested graph": (
        "graph-value-info-known-name",
        model_with_nested_info("i", graph_fields=f"value_info {{ {value('i')} }}"),
    ),
    "value_info of a name that a node reads and none produces": (
        "graph-value-info-known-name",
        model(f"value_info {{ {value('gone')} }}" + node("gone", "y")),
    ),
    "value_info that differs": (
        "graph-value-info-name-unique",
        model(f"value_info {{ {value('y')} }} value_info {{ {value('y', '')} }}" + node("", "y")),
    ),
}


def set_type(message, name):
    """Set the type of the first attribute of the first node, in a message of the official runtime."""
    message.graph.node[0].attribute[0].type = onnx.AttributeProto.AttributeType.Value(name)


def write_model(path, text):
    """Encode a model in text format, write it to a file and return the path."""
    path.write_bytes(onnxwire.from_text(text).SerializeToString())
    return path


def read_state(path):
    """Return the inode number, modification time and bytes of a file, but not its access time (reading changes it)."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, path.read_bytes()


def test_every_rule_that_can_be_repaired_has_a_case():
    assert CASES.keys() == fixable_rules()
    assert fixable_rules() <= checked()


@pytest.mark.parametrize(("rule", "index"), [(rule, i) for rule in CASES for i in range(len(CASES[rule]))])
def test_a_repair_makes_the_expected_change_and_no_other(rule, index, tmp_path):
    text, edit = CASES[rule][index]
    path, out = write_model(tmp_path / "m.onnx", text), tmp_path / "out.onnx"
    bytes_before = path.read_bytes()
    assert main(["check", str(path), "--fix", "--select", rule, "-o", str(out), "-q"]) in (0, 1)
    expected = onnx.ModelProto.FromString(bytes_before)
    edit(expected)
    assert onnx.ModelProto.FromString(out.read_bytes()) == expected != onnx.ModelProto.FromString(bytes_before)
    remaining_problems = onnxwire.check(out, select=rule)
    # In the model of metadata-model-key-unique, two entries have the key c and different values: they have no repair.
    assert not remaining_problems or (
        rule == "metadata-model-key-unique"
        and [problem.path for problem in remaining_problems] == ["metadata_props[3]"]
    )
    assert path.read_bytes() == bytes_before


@pytest.mark.parametrize("fault", UNREPAIRABLE)
def test_a_fault_without_a_unique_repair_is_not_repaired(fault, tmp_path):
    rule, text = UNREPAIRABLE[fault]
    path = write_model(tmp_path / "m.onnx", text)
    assert onnxwire.check(path, select=rule)
    state = read_state(path)
    main(["check", str(path), "--fix", "--select", rule, "-q"])
    assert read_state(path) == state  # the file is not even rewritten


def test_types_in_value_info_that_shape_inference_needs_are_not_removed():
    branch = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["own"], ["i"])],
        "branch",
        [],
        [onnx.helper.make_empty_tensor_value_info("i")],
        value_info=[onnx.helper.make_tensor_value_info("own", 1, [2, 3])],
    )
    nodes = [
        onnx.helper.make_node("Unknown", ["x"], ["own"], domain="d"),
        onnx.helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    inputs = [onnx.helper.make_tensor_value_info("x", 1, [2]), onnx.helper.make_tensor_value_info("c", 9, [])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [onnx.helper.make_empty_tensor_value_info("y")])
    original = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid(*domain_and_version) for domain_and_version in (("", 17), ("d", 1))],
    )
    inferred = onnx.shape_inference.infer_shapes(original)
    assert [dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim] == [2, 3]
    message = ModelProto.FromString(original.SerializeToString())
    apply_fixes(find_fixes(message, onnxwire.check(message)))
    repaired = onnx.ModelProto.FromString(message.SerializeToString())
    assert onnx.shape_inference.infer_shapes(repaired).graph.output == inferred.graph.output


@pytest.mark.parametrize(("version", "remaining_names"), [(9, ["d::f/x", "d::f/y"]), (10, [])])
def test_value_info_of_functions_stays_in_the_graph_before_ir_version_10(version, remaining_names):
    names = ("d::f/x", "d::other/x", "d::f/y", "f/x", "d::f")
    message = onnxwire.from_text(
        model("".join(f"value_info {{ {value(name)} }}" for name in names), ir=version, fields=FUNCTION)
    )
    problems = onnxwire.check(message, select="graph-value-info-known-name")
    assert [problem.path for problem in problems] == [
        f"graph.value_info[{i}]" for i, name in enumerate(names) if name not in remaining_names
    ]
    apply_fixes(find_fixes(message, problems))
    assert [info.name for info in message.graph.value_info] == remaining_names


def test_value_info_that_onnx_ir_writes_for_functions_is_not_removed():
    input_value = onnx_ir.val("x", onnx_ir.DataType.FLOAT, [2, 3])
    relu = onnx_ir.node("Relu", [input_value], num_outputs=1)
    relu.outputs[0].name, relu.outputs[0].type, relu.outputs[0].shape = "y", input_value.type, input_value.shape
    function = onnx_ir.Function(
        "d", "f", graph=onnx_ir.Graph([input_value], relu.outputs, nodes=[relu], opset_imports={"": 17}), attributes=[]
    )
    main_graph = onnx_ir.Graph([], [], nodes=[], opset_imports={"": 17, "d": 1}, name="g")
    original = onnx_ir.to_proto(onnx_ir.Model(main_graph, ir_version=9, functions=[function]))
    assert len(original.graph.value_info) == 2
    message = ModelProto.FromString(original.SerializeToString())
    apply_fixes(find_fixes(message, onnxwire.check(message)))
    repaired = onnx.ModelProto.FromString(message.SerializeToString())
    assert repaired.graph.value_info == original.graph.value_info


def test_faults_of_several_rules_are_repaired_together(tmp_path):
    # The indices in the problems of all rules refer to the lists before any removal.
    shape = 'attribute { name: "shape" type: INTS ints: 2 }'
    text = model(
        "".join(f"value_info {{ {value(name)} }}" for name in ("gone", "y", "y", "gone", "z"))
        + "".join(node("", name, shape, op="RandomNormal") for name in "yz"),
        opset=OPSET * 3,
        fields=f"metadata_props {entry('a', 1)}" * 3,
    )
    path = write_model(tmp_path / "m.onnx", text)
    assert main(["check", str(path), "--fix", "-q"]) == 0
    repaired = onnx.load(path)
    assert [info.name for info in repaired.graph.value_info] == ["y", "z"]
    assert len(repaired.opset_import) == len(repaired.metadata_props) == 1


def test_each_repair_is_listed_and_the_remaining_problems_are_reported(tmp_path, capsys):
    path = write_model(tmp_path / "m.onnx", CASES["metadata-model-key-unique"][0][0])
    assert main(["check", str(path), "--fix", "--select", "metadata-model-key-unique"]) == 1
    repair, remaining_problem = capsys.readouterr().out.splitlines()
    assert repair == (
        f"{path}: repair: metadata_props[2]: remove the entry 'a', which repeats an earlier one exactly "
        "[metadata-model-key-unique]"
    )
    assert remaining_problem.startswith(f"{path}: error: byte ") and ": metadata_props[3]: " in remaining_problem


def test_a_dry_run_lists_repairs_and_does_not_write(tmp_path, capsys):
    path = write_model(tmp_path / "m.onnx", CASES["opset-import-duplicate-entry"][0][0])
    state = read_state(path)
    arguments = ["check", str(path), "--fix", "--dry-run", "--select", "opset-import-duplicate-entry"]
    assert main([*arguments, "--fail-on", "warning"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: would repair: opset_import[2]: ") and ": warning: " in lines[1]
    assert read_state(path) == state
    assert main([*arguments, "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert [(fix["rule"], fix["path"]) for fix in report["fixes"]] == [
        ("opset-import-duplicate-entry", "opset_import[2]")
    ]


def test_a_model_is_repaired_from_pipe_to_pipe():
    text, edit = CASES["opset-import-duplicate-entry"][0]
    data = onnxwire.from_text(text).SerializeToString()
    command = [sys.executable, "-P", "-m", "onnxwire", "check", "-", "--fix", "-o", "-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    expected = onnx.ModelProto.FromString(data)
    edit(expected)
    assert onnx.ModelProto.FromString(process.stdout) == expected
    assert b"repair: opset_import[2]" in process.stderr


@pytest.mark.parametrize("failure", ["no folder", "a folder", "a full disk"])
def test_the_original_is_unchanged_if_writing_fails(failure, tmp_path, monkeypatch, capsys):
    path = write_model(tmp_path / "m.onnx", CASES["opset-import-duplicate-entry"][0][0])
    state = read_state(path)
    out = {"no folder": ["-o", str(tmp_path / "no" / "out.onnx")], "a folder": ["-o", str(tmp_path)]}.get(failure, [])
    if failure == "a full disk":

        def fail(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fail)
    assert main(["check", str(path), "--fix", *out]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert read_state(path) == state
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_many_elements_of_a_long_list_are_removed_at_once():
    # Removing 175,000 of 200,000 elements one by one would move billions of elements, which takes minutes.
    infos = [ValueInfoProto(name=f"v{i}") for i in range(50_000) for _ in range(4)]
    nodes = [NodeProto(op_type="A", output=[f"v{i}"]) for i in range(25_000)]
    message = ModelProto.FromString(
        ModelProto(ir_version=8, graph=GraphProto(name="g", node=nodes, value_info=infos)).SerializeToString()
    )
    problems = onnxwire.check(message, select=["graph-value-info-known-name", "graph-value-info-name-unique"])
    fixes = find_fixes(message, problems)
    apply_fixes(fixes)
    assert len(fixes) == 175_000
    assert [info.name for info in message.graph.value_info] == [f"v{i}" for i in range(25_000)]


def test_repairs_do_not_undo_earlier_edits():
    message = ModelProto(graph=GraphProto(node=[NodeProto(attribute=[AttributeProto(name="a", f=1)])]))
    message.metadata_props.add(key="k", value="v")
    message.metadata_props.add(key="k", value="w")
    message.metadata_props[1].value = "v"
    apply_fixes(find_fixes(message, onnxwire.check(message, ir_version=10)))
    assert [(entry.key, entry.value) for entry in message.metadata_props] == [("k", "v")]
    assert message.graph.node[0].attribute[0].type == AttributeProto.FLOAT


def test_entries_are_removed_from_lists_inside_of_remaining_elements():
    # The repairs remove an entry from the metadata of each value_info, and value_info[0] itself.
    message = ModelProto(ir_version=10, graph=GraphProto(name="g", node=[NodeProto(op_type="A", output=["x"])]))
    for name in ("stale", "x"):
        info = message.graph.value_info.add(name=name)
        info.metadata_props.add(key="k", value="v")
        info.metadata_props.add(key="k", value="v")
    message = ModelProto.FromString(message.SerializeToString())
    fixes = find_fixes(message, onnxwire.check(message, select=["error", "warning"]))
    assert [fix.path for fix in fixes] == [
        "graph.value_info[0].metadata_props[1]",
        "graph.value_info[1].metadata_props[1]",
        "graph.value_info[0]",
    ]
    apply_fixes(fixes)
    assert [(info.name, len(info.metadata_props)) for info in message.graph.value_info] == [("x", 1)]


def test_repairs_that_were_applied_can_not_be_read_or_applied_again():
    message = ModelProto(ir_version=10)
    for _ in range(3):
        message.metadata_props.add(key="k", value="v")
    fixes = find_fixes(message, onnxwire.check(message))
    repairs = list(fixes)
    assert len(fixes) == len(repairs) == 2 and repairs[0] in fixes
    apply_fixes(fixes)
    assert len(message.metadata_props) == 1
    for operation in (lambda: list(fixes), lambda: apply_fixes(fixes)):
        with pytest.raises(onnxwire.errors.ChangedError, match="have already been applied"):
            operation()


def test_the_repairs_of_a_file_that_can_not_be_written_are_reported_with_the_error(tmp_path, capsys):
    path = write_model(tmp_path / "m.onnx", CASES["opset-import-duplicate-entry"][0][0])
    assert main(["check", str(path), "--fix", "--json", "-o", str(tmp_path / "no" / "out.onnx")]) == 2
    (report,) = json.loads(capsys.readouterr().out)
    assert report["fixes"] and report["error"]


def test_problems_beyond_the_limit_of_one_run_are_repaired_by_the_next_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("onnxwire.checker.fixes.MAX_CHANGES", 2)
    dims = "".join('dim { dim_param: "" } ' for _ in range(5))
    path = write_model(tmp_path / "m.onnx", model(f'input {{ name: "x" {float_type(dims)} }}'))
    for n_remaining in (3, 1, 0):
        fixes = find_fixes(onnxwire.load(path), onnxwire.check(path, select=["shape-dim-param-empty"]))
        assert fixes.omitted == n_remaining
        main(["check", str(path), "--fix"])
        noun = "problem" if n_remaining == 1 else "problems"
        assert (f"for {n_remaining} more {noun}\n" in capsys.readouterr().out) == bool(n_remaining)
    assert not onnxwire.check(path, select=["shape-dim-param-empty"])
