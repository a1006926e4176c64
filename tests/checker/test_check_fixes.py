"""`onnxwire check --fix` applies the repairs of faults with one safe answer, and changes nothing else."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx_ir
import pytest
from check_case import OPSET, model, node, shaped, value

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto
from onnxwire.checker.fixes import apply_fixes, find_fixes, fixable
from onnxwire.checker.registry import checked
from onnxwire.cli import main

ROOT = Path(__file__).parents[2]


FUNCTION = (
    f'functions {{ name: "f" domain: "d" input: "x" output: "y" opset_import {{ version: 17 }} {node("x", "y")} }}'
)


def attribute(inside, more=""):
    return model(
        f"input {{ {value('x')} }} value_info {{ {value('y')} }}" + node("x", "y", f"attribute {{ {inside} }} {more}")
    )


def function(inside, ir=10):
    return model(
        ir=ir,
        rest=f'functions {{ name: "f" domain: "d.e" input: "x" output: "y" opset_import {{ version: 17 }} {inside} '
        f"{node('x', 'y')} }}",
    )


def nested_info(name, more=""):
    branch = f"g {{ name: 'b' {node('x', 'i')} output {{ {value('i')} }} value_info {{ {value(name)} }} }}"
    return model(
        f"input {{ {value('c')} }} input {{ {value('x')} }} {more}"
        + node("c", "y", f'attribute {{ name: "then_branch" type: GRAPH {branch} }}', op="If")
        + node("y", "last")
    )


def pair(key, val):
    return f'{{ key: "{key}" value: "{val}" }}'


def external(entries):
    return model(f'initializer {{ name: "w" data_type: 1 dims: 1 data_location: EXTERNAL {entries} }}')


LOCATION = f"external_data {pair('location', 'w.bin')}"

# By rule: models that break it, and the equivalent repair with the official runtime.
CASES = {
    "attribute-name-unique": [
        (
            attribute('name: "a" type: INTS ints: 1', 'attribute { name: "a" type: INTS ints: 1 }'),
            lambda m: m.graph.node[0].attribute.pop(1),
        )
    ],
    "attribute-type-present": [
        (attribute('name: "a" f: 0'), lambda m: set_type(m, "FLOAT")),
        (attribute('name: "a" i: 7'), lambda m: set_type(m, "INT")),
        (attribute('name: "a" s: ""'), lambda m: set_type(m, "STRING")),
        (attribute('name: "a" t { dims: 0 data_type: 1 }'), lambda m: set_type(m, "TENSOR")),
        (attribute('name: "a" g { name: "h" }'), lambda m: set_type(m, "GRAPH")),
        (attribute('name: "a" floats: [1, 2]'), lambda m: set_type(m, "FLOATS")),
        (attribute('name: "a" ints: 0'), lambda m: set_type(m, "INTS")),
        (attribute('name: "a" strings: ["p", "q"]'), lambda m: set_type(m, "STRINGS")),
        (attribute('name: "a" tensors { dims: 0 data_type: 1 }'), lambda m: set_type(m, "TENSORS")),
        (attribute('name: "a" tp { tensor_type { elem_type: 1 } }'), lambda m: set_type(m, "TYPE_PROTO")),
    ],
    "attribute-type-valid": [(attribute('name: "a" type: UNDEFINED f: 1'), lambda m: set_type(m, "FLOAT"))],
    "external-key-basepath": [
        (
            external(f"{LOCATION} external_data {pair('basepath', '/home/me')}"),
            lambda m: m.graph.initializer[0].external_data.pop(1),
        )
    ],
    "external-key-unique": [
        (external(f"{LOCATION} {LOCATION}"), lambda m: m.graph.initializer[0].external_data.pop(1)),
    ],
    "function-attribute-name-unique": [
        (function('attribute: ["a", "b", "a"]'), lambda m: m.functions[0].attribute.pop(2)),
    ],
    "function-value-info-known-name": [
        (function(f"value_info {{ {value('gone')} }}"), lambda m: m.functions[0].value_info.pop(0)),
    ],
    "function-value-info-name-unique": [
        (
            function(f"value_info {{ {value('x')} }} value_info {{ {value('x')} }}"),
            lambda m: m.functions[0].value_info.pop(1),
        ),
    ],
    "graph-value-info-known-name": [
        (
            model("".join(f"value_info {{ {value(name)} }}" for name in ("p", "y", "q")) + node("", "y")),
            lambda m: (m.graph.value_info.pop(2), m.graph.value_info.pop(0)),
        ),
    ],
    "graph-value-info-name-unique": [
        (
            model("".join(f"value_info {{ {value(name)} }}" for name in "yzyy") + node("", "y z")),
            lambda m: (m.graph.value_info.pop(3), m.graph.value_info.pop(2)),
        ),
    ],
    "metadata-model-key-unique": [
        (
            model(rest="".join(f"metadata_props {pair(*both)}" for both in ("a1", "b2", "a1", "c3", "c4"))),
            lambda m: m.metadata_props.pop(2),
        ),
    ],
    "metadata-nested-key-unique": [
        (
            model(
                f"metadata_props {pair('a', 1)} metadata_props {pair('a', 1)}"
                + node("", "y", f"metadata_props {pair('a', 1)} metadata_props {pair('a', 1)}"),
                ir=10,
            ),
            lambda m: (m.graph.metadata_props.pop(1), m.graph.node[0].metadata_props.pop(1)),
        ),
    ],
    "opset-import-duplicate-entry": [
        (model(opset=f"{OPSET} opset_import {{ domain: 'a.b' version: 1 }} {OPSET}"), lambda m: m.opset_import.pop(2)),
        (function("opset_import { version: 17 }"), lambda m: m.functions[0].opset_import.pop(1)),
    ],
    "quant-annotation-key-unique": [
        (
            model(
                f'quantization_annotation {{ tensor_name: "y" quant_parameter_tensor_names {pair("SCALE_TENSOR", "s")} '
                f"quant_parameter_tensor_names {pair('SCALE_TENSOR', 's')} }}" + node("", "y")
            ),
            lambda m: m.graph.quantization_annotation[0].quant_parameter_tensor_names.pop(1),
        ),
    ],
    "quant-annotation-tensor-unique": [
        (
            model('quantization_annotation { tensor_name: "y" }' * 2 + node("", "y")),
            lambda m: m.graph.quantization_annotation.pop(1),
        ),
    ],
    "shape-dim-value-nonnegative": [
        (
            model(
                f"input {{ {value('x', shaped('dim { dim_value: -1 } dim { dim_value: 0 } dim { dim_value: 2 }'))} }}"
            ),
            lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        ),
        (
            model(
                f"value_info {{ {value('y', shaped('dim { dim_value: -1 denotation: ' + repr('DATA') + ' }'))} }}"
                + node("", "y")
            ),
            lambda m: m.graph.value_info[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        ),
    ],
    "shape-dim-param-empty": [
        (
            model(f"input {{ {value('x', shaped('dim { dim_value: 2 } dim { dim_param: ' + repr('') + ' }'))} }}"),
            lambda m: m.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param"),
        ),
    ],
}

# Models that break a rule, but have no unique repair.
UNFIXED = {
    "attributes that differ": (
        "attribute-name-unique",
        attribute('name: "a" type: INT i: 1', 'attribute { name: "a" type: INT i: 2 }'),
    ),
    "no value": ("attribute-type-present", attribute('name: "a"')),
    "two values": ("attribute-type-present", attribute('name: "a" f: 1 i: 1')),
    "a value and a reference": ("attribute-type-present", attribute('name: "a" f: 1 ref_attr_name: "b"')),
    "keys with two values": (
        "metadata-model-key-unique",
        model(rest="".join(f"metadata_props {pair(*both)}" for both in ("a1", "a2", "a1"))),
    ),
    "domains at two versions": (
        "opset-import-duplicate-entry",
        model(opset=f"{OPSET} opset_import {{ domain: 'ai.onnx' version: 18 }} {OPSET}"),
    ),
    "a size below 0 that is not -1": (
        "shape-dim-value-nonnegative",
        model(f"input {{ {value('x', shaped('dim { dim_value: -2 }'))} }}"),
    ),
    "value_info of a value around the graph": ("graph-value-info-known-name", nested_info("x")),
    "value_info of a value that a later node produces": ("graph-value-info-known-name", nested_info("last")),
    "value_info of a value in a nested graph": (
        "graph-value-info-known-name",
        nested_info("i", more=f"value_info {{ {value('i')} }}"),
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
    message.graph.node[0].attribute[0].type = onnx.AttributeProto.AttributeType.Value(name)


def write(path, text):
    path.write_bytes(onnxwire.from_text(text).SerializeToString())
    return path


def state_of(path):
    """Return the identity, modification time and bytes of a file, but not its access time, which the system changes."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, path.read_bytes()


def test_every_rule_that_can_be_repaired_has_a_case():
    assert CASES.keys() == fixable()
    assert fixable() <= checked()


@pytest.mark.parametrize(("rule", "number"), [(rule, i) for rule in CASES for i in range(len(CASES[rule]))])
def test_a_repair_does_what_the_official_runtime_does_and_no_more(rule, number, tmp_path):
    text, edit = CASES[rule][number]
    path, out = write(tmp_path / "m.onnx", text), tmp_path / "out.onnx"
    before = path.read_bytes()
    assert main(["check", str(path), "--fix", "--select", rule, "-o", str(out), "-q"]) in (0, 1)
    wanted = onnx.ModelProto.FromString(before)
    edit(wanted)
    assert onnx.ModelProto.FromString(out.read_bytes()) == wanted != onnx.ModelProto.FromString(before)
    left = onnxwire.check(out, select=rule)
    assert not left or (rule == "metadata-model-key-unique" and [p.path for p in left] == ["metadata_props[3]"])
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", UNFIXED)
def test_a_fault_without_a_unique_answer_is_not_repaired(what, tmp_path):
    rule, text = UNFIXED[what]
    path = write(tmp_path / "m.onnx", text)
    assert onnxwire.check(path, select=rule)
    state = state_of(path)
    main(["check", str(path), "--fix", "--select", rule, "-q"])
    assert state_of(path) == state  # not even rewritten


def test_types_that_shape_inference_reads_of_value_info_stay():
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
    before = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid(*both) for both in (("", 17), ("d", 1))]
    )
    inferred = onnx.shape_inference.infer_shapes(before)
    assert [dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim] == [2, 3]
    message = ModelProto.FromString(before.SerializeToString())
    apply_fixes(find_fixes(message, onnxwire.check(message)))
    repaired = onnx.ModelProto.FromString(message.SerializeToString())
    assert onnx.shape_inference.infer_shapes(repaired).graph.output == inferred.graph.output


@pytest.mark.parametrize(("version", "left"), [(9, ["d::f/x", "d::f/y"]), (10, [])])
def test_value_info_of_functions_stays_in_the_graph_before_ir_version_10(version, left):
    names = ("d::f/x", "d::other/x", "d::f/y", "f/x", "d::f")
    message = onnxwire.from_text(
        model("".join(f"value_info {{ {value(name)} }}" for name in names), ir=version, rest=FUNCTION)
    )
    problems = onnxwire.check(message, select="graph-value-info-known-name")
    assert [problem.path for problem in problems] == [
        f"graph.value_info[{i}]" for i, name in enumerate(names) if name not in left
    ]
    apply_fixes(find_fixes(message, problems))
    assert [info.name for info in message.graph.value_info] == left


def test_onnx_ir_reads_the_types_of_functions_that_it_wrote():
    x = onnx_ir.val("x", onnx_ir.DataType.FLOAT, [2, 3])
    relu = onnx_ir.node("Relu", [x], num_outputs=1)
    relu.outputs[0].name, relu.outputs[0].type, relu.outputs[0].shape = "y", x.type, x.shape
    function = onnx_ir.Function(
        "d", "f", graph=onnx_ir.Graph([x], relu.outputs, nodes=[relu], opset_imports={"": 17}), attributes=[]
    )
    main = onnx_ir.Graph([], [], nodes=[], opset_imports={"": 17, "d": 1}, name="g")
    before = onnx_ir.to_proto(onnx_ir.Model(main, ir_version=9, functions=[function]))
    assert len(before.graph.value_info) == 2
    message = ModelProto.FromString(before.SerializeToString())
    apply_fixes(find_fixes(message, onnxwire.check(message)))
    repaired = onnx.ModelProto.FromString(message.SerializeToString())
    assert repaired.graph.value_info == before.graph.value_info


def test_all_kinds_are_repaired_at_once(tmp_path):
    # Indexes refer to the list before any removal, whichever rule reports them.
    shape = 'attribute { name: "shape" type: INTS ints: 2 }'
    text = model(
        "".join(f"value_info {{ {value(name)} }}" for name in ("gone", "y", "y", "gone", "z"))
        + "".join(node("", name, shape, op="RandomNormal") for name in "yz"),
        opset=OPSET * 3,
        rest=f"metadata_props {pair('a', 1)}" * 3,
    )
    path = write(tmp_path / "m.onnx", text)
    assert main(["check", str(path), "--fix", "-q"]) == 0
    repaired = onnx.load(path)
    assert [info.name for info in repaired.graph.value_info] == ["y", "z"]
    assert len(repaired.opset_import) == len(repaired.metadata_props) == 1


def test_each_repair_is_listed_and_the_remaining_problems_are_reported(tmp_path, capsys):
    path = write(tmp_path / "m.onnx", CASES["metadata-model-key-unique"][0][0])
    assert main(["check", str(path), "--fix", "--select", "metadata-model-key-unique"]) == 1
    listed, left = capsys.readouterr().out.splitlines()
    assert listed == (
        f"{path}: repair: metadata_props[2]: remove the entry 'a', which repeats an earlier one exactly "
        "[metadata-model-key-unique]"
    )
    assert left.startswith(f"{path}: error: byte ") and ": metadata_props[3]: " in left


def test_a_dry_run_lists_and_writes_nothing(tmp_path, capsys):
    path = write(tmp_path / "m.onnx", CASES["opset-import-duplicate-entry"][0][0])
    state = state_of(path)
    arguments = ["check", str(path), "--fix", "--dry-run", "--select", "opset-import-duplicate-entry"]
    assert main([*arguments, "--fail-on", "warning"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: would repair: opset_import[2]: ") and ": warning: " in lines[1]
    assert state_of(path) == state
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
    done = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    wanted = onnx.ModelProto.FromString(data)
    edit(wanted)
    assert onnx.ModelProto.FromString(done.stdout) == wanted
    assert b"repair: opset_import[2]" in done.stderr


@pytest.mark.parametrize("how", ["no folder", "a folder", "a full disk"])
def test_the_original_is_untouched_where_writing_fails(how, tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "m.onnx", CASES["opset-import-duplicate-entry"][0][0])
    state = state_of(path)
    out = {"no folder": ["-o", str(tmp_path / "no" / "out.onnx")], "a folder": ["-o", str(tmp_path)]}.get(how, [])
    if how == "a full disk":

        def fail(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fail)
    assert main(["check", str(path), "--fix", *out]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert state_of(path) == state
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_many_elements_of_a_long_list_are_removed_at_once():
    # Removing 175,000 of 200,000 elements one by one would move 20 billion elements: this test would not end.
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


def test_elements_keep_their_own_edits():
    message = ModelProto(graph=GraphProto(node=[NodeProto(attribute=[AttributeProto(name="a", f=1)])]))
    message.metadata_props.add(key="k", value="v")
    message.metadata_props.add(key="k", value="w")
    message.metadata_props[1].value = "v"
    apply_fixes(find_fixes(message, onnxwire.check(message, ir_version=10)))
    assert [(entry.key, entry.value) for entry in message.metadata_props] == [("k", "v")]
    assert message.graph.node[0].attribute[0].type == AttributeProto.FLOAT


def test_entries_are_removed_from_lists_inside_of_remaining_elements():
    # Removes value_info[0], and an entry of the metadata of value_info[1], which then becomes value_info[0].
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


def test_repairs_are_applied_once_and_can_be_read_before_that():
    message = ModelProto(ir_version=10)
    for _ in range(3):
        message.metadata_props.add(key="k", value="v")
    fixes = find_fixes(message, onnxwire.check(message))
    told = list(fixes)
    assert len(fixes) == len(told) == 2 and told[0] in fixes
    apply_fixes(fixes)
    assert len(message.metadata_props) == 1
    for again in (lambda: list(fixes), lambda: apply_fixes(fixes)):
        with pytest.raises(onnxwire.errors.ChangedError, match="have already been applied"):
            again()


def test_the_repairs_of_a_file_that_can_not_be_written_are_reported_with_the_error(tmp_path, capsys):
    path = write(tmp_path / "m.onnx", CASES["opset-import-duplicate-entry"][0][0])
    assert main(["check", str(path), "--fix", "--json", "-o", str(tmp_path / "no" / "out.onnx")]) == 2
    (told,) = json.loads(capsys.readouterr().out)
    assert told["fixes"] and told["error"]


def test_problems_beyond_the_limit_of_one_repair_are_repaired_by_the_next(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("onnxwire.checker.fixes.MAX_CHANGES", 2)
    dims = "".join('dim { dim_param: "" } ' for _ in range(5))
    path = write(tmp_path / "m.onnx", model(f'input {{ name: "x" {shaped(dims)} }}'))
    for left in (3, 1, 0):
        found = find_fixes(onnxwire.load(path), onnxwire.check(path, select=["shape-dim-param-empty"]))
        assert found.omitted == left
        main(["check", str(path), "--fix"])
        assert (f"{left} more problems" in capsys.readouterr().out) == bool(left)
    assert not onnxwire.check(path, select=["shape-dim-param-empty"])
