"""Tests of the signature rules, of tables of operators, and of the agreement with the official checker."""

import importlib.util
import random
from pathlib import Path

import onnx
import onnx.defs
import pytest
from check_case import OPSET, graph_attribute, model, node, value
from onnx import AttributeProto, helper

import onnxwire
from onnxwire.checker.operator_table import count_limits, load_operators, operators
from onnxwire.checker.registry import rules

ROOT = Path(__file__).parents[2]
BUNDLED_FILES = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))
X = f"input {{ {value('x')} }}"
IDS = 'initializer { name: "ids" data_type: 7 dims: 1 int64_data: 0 }'
SIGNATURE_RULES = [id for id in rules() if id.startswith("signature-")]
# The table was generated from release 1.23 of the official package, whose operator set has version 28.
needs_table_release = pytest.mark.skipif(onnx.defs.onnx_opset_version() != 28, reason="the table is of release 1.23")


def rules_and_paths(text, **options):
    """Return the problems of the signature rules in a model in text form: rules without the prefix, and paths."""
    problems = onnxwire.check(onnxwire.from_text(text).SerializeToString(), select=SIGNATURE_RULES, **options)
    return [(problem.rule.removeprefix("signature-"), problem.path) for problem in problems]


def message_of(text, **options):
    """Return the message of the only problem of the signature rules in a model in text form."""
    (problem,) = onnxwire.check(onnxwire.from_text(text).SerializeToString(), select=SIGNATURE_RULES, **options)
    return problem.message


# --- the table


@needs_table_release
def test_the_table_equals_the_one_that_the_script_generates_from_the_installed_package():
    spec = importlib.util.spec_from_file_location("_operators_script", ROOT / "schema" / "operators.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    stored_lines, generated_lines = (
        script.TARGET.read_text(encoding="utf-8").splitlines(),
        script.generate().splitlines(),
    )
    assert stored_lines[1:] == generated_lines[1:]  # the first line names the release


@needs_table_release
def test_the_parsed_table_equals_the_definitions_of_the_official_package():
    schemas = onnx.defs.get_all_schemas_with_history()
    for schema in schemas:
        signature = operators().signature(schema.domain, schema.name, schema.since_version)
        types = {row.type_param_str: set(row.allowed_type_strs) for row in schema.type_constraints}
        for parameters, official_parameters in ((signature.inputs, schema.inputs), (signature.outputs, schema.outputs)):
            assert [row.name for row in parameters] == [row.name for row in official_parameters]
            for parameter, official_parameter in zip(parameters, official_parameters, strict=True):
                type_names = types.get(official_parameter.type_str, {official_parameter.type_str})
                assert parameter.types == {table_notation(name) for name in type_names}
                assert (parameter.variable == official_parameter.type_str) == (
                    official_parameter.type_str in types and official_parameter.is_homogeneous
                )
                assert parameter.option == ("", "?", "*")[official_parameter.option.value]
        assert count_limits(signature.inputs) == (
            schema.min_input,
            None if schema.max_input == 2**31 - 1 else schema.max_input,
        )
        assert count_limits(signature.outputs) == (
            schema.min_output,
            None if schema.max_output == 2**31 - 1 else schema.max_output,
        )
        assert {name: (row.type, row.is_required) for name, row in signature.attributes.items()} == {
            name: (row.type.value, row.required) for name, row in schema.attributes.items()
        }
        assert signature.is_deprecated == schema.deprecated
    assert len(schemas) == sum(map(len, operators().versions.values()))


def table_notation(name):
    """Return a type in the notation of the table: without spaces, and tensor(T) as T."""
    name = name.replace(" ", "").replace("sparse_tensor(", "sparse(")
    while "tensor(" in name:
        start = name.index("tensor(")
        end = name.index(")", start)
        name = name[:start] + name[start + len("tensor(") : end] + name[end + 1 :]
    return name.replace("sparse(", "sparse_tensor(")


@pytest.mark.parametrize(("opset", "expected_version"), [(1, 1), (5, 1), (6, 6), (13, 13), (14, 14), (99, 14)], ids=str)
def test_an_operator_has_the_version_that_changed_it_last(opset, expected_version):
    assert operators().since_version("", "Add", opset) == expected_version


def test_an_operator_of_a_later_opset_or_an_unknown_domain_has_no_version():
    assert operators().since_version("", "Gelu", 19) is None
    assert operators().since_version("a.b", "Gelu", 19) is None


# --- messages


@pytest.mark.parametrize(
    ("op", "hint"),
    [
        ("Gelu", "it was introduced in version 20"),
        ("relu", "did you mean Relu?"),
        ("Transpos", "did you mean Transpose?"),
        ("Scaler", "ai.onnx.ml has it"),
        ("Xyzzy", "correct op_type or domain"),
        ("A" * 5000, "correct op_type or domain"),
    ],
)
def test_the_message_about_an_unknown_operator_has_a_suggestion(op, hint):
    message = message_of(model(X + node("x", "y", op=op)))
    assert message.startswith(f"{op!r} is not an operator of version 17 of the default operator set; ")
    assert hint in message


def test_messages_about_counts_have_the_actual_and_the_allowed_count():
    text = model(X + node("x x x x x", "a b", op="BatchNormalization"))
    assert "has 2 outputs" in message_of(text) and "it produces 1 to 3 outputs, but not 2" in message_of(text)
    assert "accepts 1 input or more" in message_of(
        model(X + node("", "a", 'attribute { name: "axis" type: INT i: 0 }', op="Concat"))
    )


def test_messages_about_types_have_the_value_its_type_and_the_allowed_types():
    message = message_of(model(X + node("x", "y", op="Not")))
    assert message.startswith("'x' has type float, but in version 17 of the default operator set 'Not' accepts bool as")


def test_only_a_limited_number_of_unknown_operators_have_a_suggestion(monkeypatch):
    monkeypatch.setattr("onnxwire.checker.signatures.MAX_HINTS", 2)  # reaching the default limit would take seconds
    text = model(X + "".join(node("x", f"y{i}", op=f"Rel{i}") for i in range(4)))
    problems = onnxwire.check(onnxwire.from_text(text).SerializeToString(), select="signature-operator-known")
    assert ["did you mean" in problem.message for problem in problems] == [True, True, False, False]


# --- positions of nodes


def test_nodes_of_nested_graphs_use_the_version_of_the_model_and_outer_types():
    nodes = node("ids", "y", op="Not") + node("x x x", "z", op="Add")
    assert rules_and_paths(
        model(X + IDS + node("x", "o", graph_attribute(nodes) + graph_attribute(nodes, "i", "else_branch"), op="If"))
    ) == [
        ("input-count", "graph.node[0].attribute[0].g.node[1]"),
        ("input-count", "graph.node[0].attribute[1].g.node[1]"),
        ("input-type", "graph.node[0].input[0]"),
        ("input-type", "graph.node[0].attribute[0].g.node[0].input[0]"),
        ("input-type", "graph.node[0].attribute[1].g.node[0].input[0]"),
    ]


def test_nodes_of_functions_are_checked_against_the_version_that_the_function_imports():
    def function_text(version):
        """Return a function that imports a version of the default domain, in text format."""
        function_head = f'name: "f" domain: "a.b" input: "p" output: "q" opset_import {{ version: {version} }}'
        return f"functions {{ {function_head} {node('p', 'q', op='Gelu')} }}"

    imports = f'{OPSET} opset_import {{ domain: "a.b" version: 1 }}'
    call = X + node("x", "y", 'domain: "a.b"', op="f")
    assert rules_and_paths(model(call, opset=imports, fields=function_text(20))) == []
    assert rules_and_paths(model(call, opset=imports, fields=function_text(19))) == [
        ("operator-known", "functions[0].node[0]")
    ]


def test_an_attribute_reference_without_type_has_the_type_of_the_parameter():
    def call_model(kind, field):
        """Return a model that calls a function whose attribute `a` has a default of type `kind` in `field`."""
        axis = 'attribute { name: "axis" ref_attr_name: "a" }'
        default = f'attribute_proto {{ name: "a" type: {kind} {field}: 1 }}'
        head = 'name: "f" domain: "a.b" input: "p" output: "q" opset_import { version: 17 }'
        return model(
            X + node("x", "y", 'domain: "a.b"', op="f"),
            ir=10,
            opset=f'{OPSET} opset_import {{ domain: "a.b" version: 1 }}',
            fields=f"functions {{ {head} {default} {node('p', 'q', axis, op='Softmax')} }}",
        )

    assert rules_and_paths(call_model("INT", "i")) == []
    assert rules_and_paths(call_model("FLOAT", "f")) == [("attribute-type", "functions[0].node[0].attribute[0]")]


def test_a_call_of_a_local_function_is_not_checked_against_the_operator_of_the_same_name():
    text = model(X + node("x x", "y"), fields=f"functions {{ name: 'Relu' domain: '' input: ['a', 'b'] {OPSET} }}")
    assert rules_and_paths(text) == []


def test_both_names_of_the_default_domain_are_recognized():
    nodes = X + node("x", "a", 'domain: "ai.onnx"', op="Gelu") + node("x", "b", op="Gelu")
    assert (
        len(rules_and_paths(model(nodes)))
        == len(rules_and_paths(model(nodes, opset='opset_import { domain: "ai.onnx" version: 17 }')))
        == 2
    )


def test_without_an_import_nodes_are_of_version_1_up_to_ir_2_and_not_checked_from_ir_3_on():
    add = node("x x", "y", 'attribute { name: "broadcast" type: INT i: 1 }', op="Add")
    assert rules_and_paths(model(X + add, ir=2, opset="")) == []
    assert rules_and_paths(model(X + node("x", "y", op="Gelu"), ir=2, opset="")) == [
        ("operator-known", "graph.node[0]")
    ]
    assert (
        rules_and_paths(model(X + node("x", "y", op="Gelu"), ir=3, opset="")) == []
    )  # opset-import-required reports the missing import


def test_nodes_of_a_graph_without_a_model_are_not_checked():
    graph = onnxwire.GraphProto(name="g", node=[onnxwire.NodeProto(op_type="Xyzzy", output=["y"])])
    assert onnxwire.check(graph, select=SIGNATURE_RULES) == []


# --- types


def test_values_of_unknown_type_are_not_reported():
    # The type of `c` is in an attribute of Cast, and `late` is produced after the node that reads it.
    text = model(
        X
        + node("x", "c", 'attribute { name: "to" type: INT i: 7 }', op="Cast")
        + node("c x", "a", op="Add")
        + node("late x", "b", op="Add")
        + node("ids", "late")
        + IDS
    )
    assert rules_and_paths(text) == []


def test_operators_of_one_type_variable_propagate_the_type():
    chain = IDS + node("ids", "a0", op="Abs") + "".join(node(f"a{i}", f"a{i + 1}", op="Neg") for i in range(50))
    assert rules_and_paths(model(X + chain + node("a50", "y", op="Not"))) == [("input-type", "graph.node[51].input[0]")]
    # The output of Less is bool for any input type.
    assert rules_and_paths(model(X + node("x x", "a", op="Less") + node("a", "y", op="Not"))) == []
    assert rules_and_paths(model(X + node("x x", "a", op="Less") + node("a", "y", op="Exp"))) == [
        ("input-type", "graph.node[1].input[0]")
    ]


SEQUENCE = "sequence_type { elem_type { tensor_type { elem_type: %d } } }"
MAP_TYPE = "map_type { key_type: 7 value_type { tensor_type { elem_type: 1 } } }"


@pytest.mark.parametrize(
    ("type", "op", "domain", "n_errors"),
    [
        (SEQUENCE % 1, "SequenceLength", "", 0),
        (SEQUENCE % 8, "SequenceLength", "", 0),
        ("tensor_type { elem_type: 1 }", "SequenceLength", "", 1),
        (f"optional_type {{ elem_type {{ {SEQUENCE % 1} }} }}", "OptionalHasElement", "", 0),
        (f"optional_type {{ elem_type {{ {MAP_TYPE} }} }}", "OptionalHasElement", "", 1),
        (f"sequence_type {{ elem_type {{ {MAP_TYPE} }} }}", "SequenceLength", "", 1),
        (MAP_TYPE, "CastMap", "ai.onnx.ml", 0),
        (MAP_TYPE.replace("key_type: 7", "key_type: 8"), "CastMap", "ai.onnx.ml", 1),
        ("sparse_tensor_type { elem_type: 1 }", "Exp", "", 1),
        ("tensor_type { elem_type: 999 }", "Not", "", 0),
        ("tensor_type { }", "Not", "", 0),
        ("sequence_type { }", "Not", "", 0),
    ],
)
def test_types_of_all_kinds_are_distinguished(type, op, domain, n_errors):
    inputs = f'input {{ name: "x" type {{ {type} }} }}'
    imports = OPSET + 'opset_import { domain: "ai.onnx.ml" version: 3 }'
    text = model(inputs + node("x", "y", f'domain: "{domain}"', op=op), opset=imports)
    assert len(rules_and_paths(text)) == n_errors


# --- tables of other operators


# The module docstring of onnxwire/checker/operator_table.py describes the notation.
TABLE = """\
# operators of a company
domain\toperator\tsince\tinputs\toutputs\tattributes\ttypes\tnotes
@small\tfloat16 bfloat16
com.example\tFuse\t1\tX:T rest:T*0~\tY:T\tscale:FLOAT! mode:STRING\tT=@small
com.example\tFuse\t3\tX:T B:T?\tY:T\t\tT=float|double\tinputs!=2
com.example\tOld\t2\tX:int64\tY:int64\t\t\tdeprecated
"""


def vendor_model(version, *arguments, **keywords):
    """Return a model that imports a version of com.example and has a node. arguments, keywords: those of `node`."""
    return model(
        X + node(*arguments, **keywords), opset=f'{OPSET} opset_import {{ domain: "com.example" version: {version} }}'
    )


def test_operators_of_a_vendor_are_checked_against_its_own_table(tmp_path):
    path = tmp_path / "operators.tsv"
    path.write_text(TABLE)
    domain = 'domain: "com.example"'
    text = vendor_model(1, "x x", "y", domain, op="Fuse")
    assert rules_and_paths(text) == []
    assert rules_and_paths(text, operators=path) == [
        ("attribute-required", "graph.node[0]"),
        ("input-type", "graph.node[0].input[0]"),
        ("input-type", "graph.node[0].input[1]"),
    ]
    assert rules_and_paths(vendor_model(3, "x x", "y", domain, op="Fuse"), operators=path) == [
        ("input-count", "graph.node[0]")
    ]
    assert rules_and_paths(vendor_model(3, "x", "y", domain, op="Fuse"), operators=path) == []
    assert rules_and_paths(vendor_model(3, "x", "y", domain, op="Old"), operators=str(path))[0] == (
        "operator-deprecated",
        "graph.node[0]",
    )
    assert rules_and_paths(vendor_model(1, "x", "y", domain, op="Fues"), operators=path) == [
        ("operator-known", "graph.node[0]")
    ]
    assert rules_and_paths(model(X + node("x x", "y")), operators=path) == [("input-count", "graph.node[0]")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a.b\tF", "expected 3 to 8 cells"),
        ("a.b\tF\tx", "expected 3 to 8 cells"),
        ("a.b\tF\t1" + "\t" * 6, "expected 3 to 8 cells"),
        ("a.b\tF\t1\tX", "is not a parameter"),
        ("a.b\tF\t1\tX:T*x", "is not a parameter"),
        ("a.b\tF\t1\tX:T*1 Y:T", "after a variadic parameter"),
        ("a.b\tF\t1\tX:T\tY:T\taxis:NUMBER", "is not an attribute"),
        ("a.b\tF\t1\tX:T\tY:T\t" + " ".join(f"a{i}:INT" for i in range(65)), "at most 64"),
        ("a.b\tF\t1\tX:T\tY:T\t\tT", "is not a type variable"),
        ("a.b\tF\t1\tX:T\tY:T\t\tT=@none", "is not defined above"),
        ("a.b\tF\t1\tX:T\tY:T\t\t\told", "is not one of 'deprecated'"),
    ],
)
def test_an_invalid_table_is_refused_with_the_line(tmp_path, row, reason):
    path = tmp_path / "operators.tsv"
    path.write_text(f"# mine\n{row}\n")
    with pytest.raises(onnxwire.DecodeError, match=reason) as error_info:
        onnxwire.check(onnxwire.ModelProto(ir_version=8), operators=path)
    assert str(error_info.value).startswith(f"{path}: line 2: ")


def test_a_table_that_can_not_be_read_is_refused(tmp_path):
    with pytest.raises(onnxwire.SourceError, match=r"none\.tsv"):
        load_operators(tmp_path / "none.tsv")
    (tmp_path / "binary.tsv").write_bytes(b"\xff\xfe")
    with pytest.raises(onnxwire.DecodeError, match="UTF-8"):
        load_operators(tmp_path / "binary.tsv")


# --- modified nodes of valid models


def modifications(rng, node):
    """Yield names and functions; each function modifies the node so that it may violate its operator's signature."""
    attributes = list(node.attribute)

    def set_other_value(attribute):
        """Replace the value and type of an attribute by random ones; if it is a reference, replace only the type."""
        name, reference = attribute.name, attribute.ref_attr_name
        attribute.CopyFrom(helper.make_attribute(name, rng.choice([1, 0.5, "s", [1, 2], [0.5], ["s"]])))
        if reference:
            for field, _ in attribute.ListFields():
                if field.name not in ("name", "type"):
                    attribute.ClearField(field.name)
            attribute.ref_attr_name = reference

    yield "an additional input", lambda: node.input.append(rng.choice([*node.input, ""]))
    yield "ten additional inputs", lambda: node.input.extend(list(node.input[:1]) * 10)
    yield "an additional output", lambda: node.output.append("an_output_more")
    yield "three additional outputs", lambda: node.output.extend([f"more{i}" for i in range(3)])
    if node.input:
        yield "the last input removed", lambda: node.input.pop()
        yield "no input", lambda: node.ClearField("input")
        input_index = rng.randrange(len(node.input))
        yield "an omitted input", lambda: node.input.__setitem__(input_index, "")
    if node.output:
        yield "the last output removed", lambda: node.output.pop()
        output_index = rng.randrange(len(node.output))
        yield "an omitted output", lambda: node.output.__setitem__(output_index, "")
    yield "a misspelt operator", lambda: setattr(node, "op_type", node.op_type[:-1] + "q")
    yield "another operator", lambda: setattr(node, "op_type", rng.choice(OPERATORS))
    yield "an unknown attribute", lambda: node.attribute.append(helper.make_attribute("unknown_one", 1))
    yield "a tool's own attribute", lambda: node.attribute.append(helper.make_attribute("__of_a_tool", 1))
    if attributes:
        attribute = rng.choice(attributes)
        yield "an attribute of another type", lambda: set_other_value(attribute)
        yield "an attribute removed", lambda: node.attribute.remove(attribute)
        yield "an attribute without type", lambda: attribute.ClearField("type")
        yield "a misspelt attribute", lambda: setattr(attribute, "name", attribute.name + "s")


OPERATORS = sorted({name for _, name in operators().versions})


def all_nodes(model):
    """Yield the nodes of a model, including those in subgraphs and functions."""
    pending = [model.graph, *model.functions]
    while pending:
        for message in pending.pop().node:
            yield message
            for attribute in message.attribute:
                pending += [attribute.g] if attribute.type == AttributeProto.GRAPH else list(attribute.graphs)


def official_error(model):
    """Return the official checker's message about a model, "" if it accepts the model."""
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        return str(error)
    return ""


def make_valid_node(schema):
    """Return a node that matches a signature. The types of its inputs and outputs are not declared."""
    values = {"INTS": [1], "FLOATS": [1.0], "STRINGS": ["s"], "INT": 1, "FLOAT": 1.0, "STRING": "s"}
    values["TENSOR"] = helper.make_tensor("t", 1, [1], [1.0])
    values["GRAPH"] = helper.make_graph([], "g", [], [])
    values["SPARSE_TENSOR"] = helper.make_sparse_tensor(
        helper.make_tensor("v", 1, [1], [1.0]), helper.make_tensor("i", 7, [1], [0]), [4]
    )
    attributes = {name: values[row.type.name] for name, row in schema.attributes.items() if row.required}
    inputs, outputs = ["x"] * schema.min_input, [f"o{i}" for i in range(schema.min_output)]
    return helper.make_node(schema.name, inputs, outputs, domain=schema.domain, **attributes)


@needs_table_release
def test_every_signature_agrees_with_the_official_checker_about_modified_nodes():
    rng = random.Random(0)
    n_refused = n_accepted = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        context = onnx.checker.C.CheckerContext()
        context.ir_version = 10
        context.opset_imports = {schema.domain: schema.since_version}
        valid_node = make_valid_node(schema)
        nodes = [valid_node]
        for modification in [name for name, _ in modifications(rng, valid_node)]:
            modified = onnx.NodeProto()
            modified.CopyFrom(valid_node)
            if schema.attributes and not modified.attribute:
                name, attribute = rng.choice(sorted(schema.attributes.items()))
                if attribute.type.name in ("INT", "FLOAT", "STRING"):
                    value_of_type = {"INT": 1, "FLOAT": 1.0, "STRING": "s"}[attribute.type.name]
                    modified.attribute.append(helper.make_attribute(name, value_of_type))
            dict(modifications(rng, modified)).get(modification, lambda: None)()
            nodes.append(modified)
        for number, modified_node in enumerate(nodes):
            modified_node.output[:] = [name and f"{name}_{number}" for name in modified_node.output]
        graph = onnx.GraphProto(name="g", node=nodes, input=[onnx.ValueInfoProto(name="x")])
        model_of_nodes = onnx.ModelProto(ir_version=10, graph=graph)
        model_of_nodes.opset_import.add(domain=schema.domain, version=schema.since_version)
        errors = onnxwire.check(model_of_nodes.SerializeToString(), select="error")
        invalid_numbers = {
            int(error.path[len("graph.node[") :].partition("]")[0]) for error in errors if "node[" in error.path
        }
        for number, modified_node in enumerate(nodes):
            try:
                onnx.checker.check_node(modified_node, context)
            except onnx.checker.ValidationError as error:
                n_refused += 1
                assert number in invalid_numbers, (
                    schema.domain,
                    schema.name,
                    schema.since_version,
                    modified_node,
                    error,
                )
            else:
                n_accepted += 1
                assert number not in invalid_numbers or not modified_node.output or is_unchecked(modified_node), (
                    modified_node,
                    [str(e) for e in errors],
                )
    assert n_refused > 4000 and n_accepted > 1000


def is_unchecked(node):
    """Return whether the official checker ignores the operators of the node's domain."""
    return node.domain.startswith("ai.onnx.preview")


@needs_table_release
@pytest.mark.parametrize("part", range(4))
def test_no_modified_model_that_the_official_checker_refuses_is_accepted(part):
    rng = random.Random(part)
    n_refused = 0
    for path in BUNDLED_FILES[part::4]:
        data = path.read_bytes()
        if len(data) > 1 << 16:
            continue  # skipped to save time
        valid_model = onnx.ModelProto.FromString(data)
        if official_error(valid_model):
            continue
        total = sum(1 for _ in all_nodes(valid_model))
        for index in rng.sample(range(total), min(total, 1)):
            modification_names = [name for name, _ in modifications(rng, list(all_nodes(valid_model))[index])]
            for modification in rng.sample(modification_names, 6):
                modified = onnx.ModelProto.FromString(data)
                dict(modifications(rng, list(all_nodes(modified))[index])).get(modification, lambda: None)()
                reason = official_error(modified)
                if reason:
                    n_refused += 1
                    errors = onnxwire.check(modified.SerializeToString(), select="error")
                    assert len(errors), (path.parent.name, index, modification, reason)
    assert n_refused > 50
